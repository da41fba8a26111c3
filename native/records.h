/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_RECORDS_H
#define XDPREPRO_RECORDS_H

#include "../bpf/record.h"
#include "counters.h"
#include "load.h"

/* The part of a program's records that can be in use. */
struct records {
	const struct record *records;
	struct record *taken; /* of the same layout */
	unsigned int per_cpu;
	unsigned int cpus;
	unsigned int rxqs;
};

/* As many of the receive queues as the mapped records tell apart. */
int records_create(struct records *records, const struct loaded *loaded, unsigned int cpus,
		   unsigned int rxqs);
/* Those of the programs on other CPUs; for the source `xdp_remote`. */
int records_create_remote(struct records *records, const struct loaded *loaded, unsigned int cpus);
void records_destroy(struct records *records);

/* The memory barrier-free read of a counter that another CPU is writing. */
static inline __u64 records_load(const __u64 *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static inline const struct record *records_find(const struct records *records, unsigned int cpu,
						unsigned int rxq)
{
	return &records->records[cpu * records->per_cpu + rxq];
}

/* The source `xdp_prog`; its context is a struct records. */
int records_take(void *records);
int records_read(const void *records, struct counters *counters);
int records_read_remote(const void *records, struct counters *counters);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_RECORDS_H
#define XDPREPRO_RECORDS_H

#include "../bpf/record.h"
#include "counters.h"

/* The part of a program's records that can be in use. */
struct records {
	const struct record *records;
	struct record *taken; /* of the same layout */
	unsigned int cpus;
	unsigned int rxqs;
};

int records_create(struct records *records, const struct record *mapped, unsigned int cpus,
		   unsigned int rxqs);
void records_destroy(struct records *records);

/* The memory barrier-free read of a counter that another CPU is writing. */
static inline __u64 records_load(const __u64 *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* The source `xdp_prog`; its context is a struct records. */
int records_take(void *records);
int records_read(const void *records, struct counters *counters);

#endif

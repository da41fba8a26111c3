/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_RECORDS_H
#define XDPREPRO_RECORDS_H

#include "../bpf/record.h"
#include "counters.h"

/* The part of a program's records that can be in use. */
struct records {
	const struct record *records;
	unsigned int cpus;
	unsigned int rxqs;
};

/* The memory barrier-free read of a counter that another CPU is writing. */
static inline __u64 records_load(const __u64 *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

const struct record *records_at(const struct records *records, unsigned int cpu, unsigned int rxq);

/* The source `xdp_prog`; its context is a struct records. */
int records_read(const void *records, struct counters *counters);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_COUNT_H
#define XDPREPRO_COUNT_H

/*
 * One array in .bss: no map lookup and no test of its result, and the agent reads it through a
 * memory map without a system call. Only its own CPU writes a record, so plain adds are enough.
 */

#include "program.h"

/* The only variable of .bss, so the agent finds it at its start. */
struct record records[RECORD_CPUS * RECORD_RXQS];

/*
 * The agent refuses ports with more receive queues and hosts with more CPUs, so the mask is for the
 * verifier and never changes the index.
 */
static __always_inline struct record *find_record(struct xdp_md *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return &records[(cpu * RECORD_RXQS + ctx->rx_queue_index) &
			(RECORD_CPUS * RECORD_RXQS - 1)];
}

static __always_inline int count(struct xdp_md *ctx, int action)
{
	return count_in(find_record(ctx), ctx, action);
}

#endif

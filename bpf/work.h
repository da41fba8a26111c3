/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_WORK_H
#define XDPREPRO_WORK_H

/*
 * The works: what a program or an application does with a packet besides moving it. Each is one
 * function for both worlds, so that they do the same on the same tables; what finds an entry in a
 * table is each world's own. This header is of plain C.
 */

#include <linux/types.h>

/* .rodata.work of the programs with a work. */
struct work_knobs {
	__u32 lines;
	__u32 iterations;
	__u32 backends; /* of each service */
	__u32 zero;
};

/* What a CPU or a thread keeps for itself. */
struct worker {
	__u64 random;
	__u64 new_sessions;
	__u64 refused_sessions; /* the table was full */
} __attribute__((aligned(128)));

#define WORKER_SEED(seed, number) ((seed) + (number) * 0x9e3779b97f4a7c15ULL)

#endif

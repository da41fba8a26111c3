/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_WORK_MEM_H
#define XDPREPRO_WORK_MEM_H

/* Memory: one random line of a working set is read and written for each packet. */

#include "work.h"

struct line {
	__u64 packets; /* the sum over all lines is that of the packets */
	__u64 unused[7];
} __attribute__((aligned(64)));

/*
 * The next line. The generator is Knuth's (MMIX), whose high bits are good; a product takes them
 * to the range without a division. It runs ahead of memory, so lines are fetched side by side.
 */
static __always_inline __u32 work_next_line(struct worker *worker, __u32 lines)
{
	worker->random = worker->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return ((worker->random >> 32) * lines) >> 32;
}

#endif

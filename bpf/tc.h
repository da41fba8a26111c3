/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_TC_H
#define XDPREPRO_TC_H

/* The records of count.h for programs of TC, which see an skb. */

#include <linux/pkt_cls.h>

#include "program.h"

#ifdef ONE_QUEUE
#define RECORDS_PER_CPU RECORDS_ONE_QUEUE
#else
#define RECORDS_PER_CPU RECORDS_QUEUES
#endif

/* The only variable of .bss, so the agent finds it at its start. */
struct record records[RECORD_CPUS * RECORDS_PER_CPU];

/* Where a driver says which queue a packet came by, this is its number plus one; else 0. */
static __always_inline __u32 find_queue(const struct __sk_buff *skb)
{
#ifdef ONE_QUEUE
	return 0;
#else
	return skb->queue_mapping ? skb->queue_mapping - 1 : 0;
#endif
}

/* Count a packet and return its action, a constant; its number is that of the slot. */
static __always_inline int count(const struct __sk_buff *skb, int action)
{
	__u64 record = bpf_get_smp_processor_id() * RECORDS_PER_CPU + find_queue(skb);

	return count_in(&records[record & (RECORD_CPUS * RECORDS_PER_CPU - 1)], action);
}

#endif

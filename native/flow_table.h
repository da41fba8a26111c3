/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_FLOW_TABLE_H
#define XDPREPRO_FLOW_TABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../bpf/work_flow.h"

/*
 * Flow to a number of 16 bits, as an application would have it: open addressing with linear
 * probing, at most half full, four slots a cache line. Any number of threads may look up while
 * others add; nothing is ever removed.
 */
struct flow_slot {
	uint64_t addresses;
	uint64_t rest; /* ports and protocol, FLOW_USED, the number; 0: free. Written last. */
};

struct flow_table {
	struct flow_slot *slots;
	size_t slots_size; /* bytes mapped */
	uint64_t mask;
	size_t len;
	size_t len_max;
	pthread_mutex_t adding;
};

#define FLOW_PORTS_MASK 0xffffffffffULL
#define FLOW_USED (1ULL << 40)
#define FLOW_NUMBER_SHIFT 48

/* The number that a flow was added with; -1: it was not. */
static __always_inline int flow_table_find(const struct flow_table *table, const struct flow *flow)
{
	uint64_t wanted = flow->ports | FLOW_USED;

	for (uint64_t i = work_hash(flow);; i++) {
		const struct flow_slot *slot = &table->slots[i & table->mask];
		uint64_t rest = __atomic_load_n(&slot->rest, __ATOMIC_ACQUIRE);

		if (!rest)
			return -1;
		if (slot->addresses == flow->addresses &&
		    (rest & (FLOW_PORTS_MASK | FLOW_USED)) == wanted)
			return rest >> FLOW_NUMBER_SHIFT;
	}
}

int flow_table_create(struct flow_table *table, size_t len_max);
void flow_table_destroy(struct flow_table *table);

/* -EEXIST if the flow is there already, -ENOSPC if the table is full. */
int flow_table_add(struct flow_table *table, const struct flow *flow, uint16_t number);

/* The next entry at or after slot *i, which moves behind it; false: there is none. */
bool flow_table_next(const struct flow_table *table, size_t *i, struct flow *flow,
		     uint16_t *number);

#endif

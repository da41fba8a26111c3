// SPDX-License-Identifier: GPL-2.0-or-later
#include "flow_table.h"

#include <errno.h>
#include <string.h>

#include "error.h"
#include "pages.h"

int flow_table_create(struct flow_table *table, size_t len_max)
{
	uint64_t slots = 64;

	while (slots < 2 * len_max)
		slots *= 2;
	memset(table, 0, sizeof(*table));
	table->slots_size = slots * sizeof(*table->slots);
	table->slots = pages_create(table->slots_size);
	if (!table->slots)
		return fail(errno, "table of flows", "create");
	table->mask = slots - 1;
	table->len_max = len_max;
	pthread_mutex_init(&table->adding, NULL);
	return 0;
}

void flow_table_destroy(struct flow_table *table)
{
	if (!table->slots)
		return;
	pages_destroy(table->slots, table->slots_size);
	pthread_mutex_destroy(&table->adding);
	table->slots = NULL;
}

static int add_locked(struct flow_table *table, const struct flow *flow, uint16_t number)
{
	struct flow_slot *slot;
	uint64_t i = work_hash(flow);

	if (flow_table_find(table, flow) >= 0)
		return -EEXIST;
	if (table->len == table->len_max)
		return -ENOSPC;
	while (table->slots[i & table->mask].rest)
		i++;
	slot = &table->slots[i & table->mask];
	slot->addresses = flow->addresses;
	__atomic_store_n(&slot->rest,
			 flow->ports | FLOW_USED | (uint64_t)number << FLOW_NUMBER_SHIFT,
			 __ATOMIC_RELEASE);
	table->len++;
	return 0;
}

int flow_table_add(struct flow_table *table, const struct flow *flow, uint16_t number)
{
	int result;

	pthread_mutex_lock(&table->adding);
	result = add_locked(table, flow, number);
	pthread_mutex_unlock(&table->adding);
	return result;
}

bool flow_table_next(const struct flow_table *table, size_t *i, struct flow *flow, uint16_t *number)
{
	for (; *i <= table->mask; ++*i) {
		const struct flow_slot *slot = &table->slots[*i];

		if (!slot->rest)
			continue;
		flow->addresses = slot->addresses;
		flow->ports = slot->rest & FLOW_PORTS_MASK;
		*number = slot->rest >> FLOW_NUMBER_SHIFT;
		++*i;
		return true;
	}
	return false;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

static const char *const action_names[] = {"XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX",
					   "XDP_REDIRECT"};

#define ACTIONS (int)(sizeof(action_names) / sizeof(action_names[0]))

int records_create(struct records *records, const struct record *mapped, unsigned int cpus,
		   unsigned int rxqs)
{
	size_t size = sizeof(*mapped) * cpus * RECORD_RXQS;

	*records = (struct records){.records = mapped, .cpus = cpus, .rxqs = rxqs};
	records->taken = aligned_alloc(_Alignof(struct record), size);
	if (!records->taken)
		return fail(ENOMEM, "records", "create");
	memset(records->taken, 0, size);
	return 0;
}

void records_destroy(struct records *records)
{
	free(records->taken);
	records->taken = NULL;
}

/* Records never become unused, so what is not copied is still zero in the copy. */
static void take_record(const struct record *record, struct record *taken)
{
	for (int action = 0; action < ACTIONS; action++) {
		taken->packets[action] = records_load(&record->packets[action]);
		if (taken->packets[action])
			taken->bytes[action] = records_load(&record->bytes[action]);
	}
}

int records_take(void *context)
{
	struct records *records = context;

	for (unsigned int cpu = 0; cpu < records->cpus; cpu++)
		for (unsigned int rxq = 0; rxq < records->rxqs; rxq++)
			take_record(&records->records[cpu * RECORD_RXQS + rxq],
				    &records->taken[cpu * RECORD_RXQS + rxq]);
	return 0;
}

static int read_record(const struct record *taken, unsigned int cpu, unsigned int rxq,
		       struct counters *counters)
{
	int result = 0;

	for (int action = 0; !result && action < ACTIONS; action++) {
		if (!taken->packets[action])
			continue;
		result = counters_set(counters, taken->packets[action], "cpu%u.rxq%u.%s.packets",
				      cpu, rxq, action_names[action]);
		if (!result)
			result =
				counters_set(counters, taken->bytes[action], "cpu%u.rxq%u.%s.bytes",
					     cpu, rxq, action_names[action]);
	}
	return result;
}

int records_read(const void *context, struct counters *counters)
{
	const struct records *records = context;
	int result = 0;

	for (unsigned int cpu = 0; cpu < records->cpus; cpu++)
		for (unsigned int rxq = 0; !result && rxq < records->rxqs; rxq++)
			result = read_record(&records->taken[cpu * RECORD_RXQS + rxq], cpu, rxq,
					     counters);
	return result;
}

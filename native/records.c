// SPDX-License-Identifier: GPL-2.0-or-later
#include "records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/bpf.h>

#include "error.h"

static const char *const action_names[] = {"XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX",
					   "XDP_REDIRECT"};

#define ACTIONS (int)(sizeof(action_names) / sizeof(action_names[0]))

static int create(struct records *records)
{
	size_t size = sizeof(*records->taken) * records->cpus * records->per_cpu;

	records->taken = aligned_alloc(_Alignof(struct record), size);
	if (!records->taken)
		return fail(ENOMEM, "records", "create");
	memset(records->taken, 0, size);
	return 0;
}

int records_create(struct records *records, const struct loaded *loaded, unsigned int cpus,
		   unsigned int rxqs)
{
	*records = (struct records){
		.records = loaded->records,
		.per_cpu = loaded->records_per_cpu,
		.cpus = cpus,
		.rxqs = loaded->records_per_cpu == RECORDS_ONE_QUEUE ? 1 : rxqs,
	};
	return create(records);
}

int records_create_remote(struct records *records, const struct loaded *loaded, unsigned int cpus)
{
	*records = (struct records){
		.records = loaded->remote,
		.per_cpu = RECORDS_ONE_QUEUE,
		.cpus = cpus,
		.rxqs = 1,
	};
	return create(records);
}

void records_destroy(struct records *records)
{
	free(records->taken);
	records->taken = NULL;
}

/*
 * What is refused is counted as a redirect first. Reading in this order gives too few redirects at
 * that moment, if anything; and fewer than before would be a counter that was reset.
 */
static void take_redirects(const struct record *record, struct record *taken)
{
	uint64_t redirects = records_load(&record->packets[XDP_REDIRECT]);

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	redirects -= records_load(&record->packets[RECORD_REFUSED]);
	if ((int64_t)(redirects - taken->packets[XDP_REDIRECT]) > 0)
		taken->packets[XDP_REDIRECT] = redirects;
}

static void take_record(const struct record *record, struct record *taken)
{
	for (int action = 0; action < XDP_REDIRECT; action++)
		taken->packets[action] = records_load(&record->packets[action]);
	take_redirects(record, taken);
}

int records_take(void *context)
{
	struct records *records = context;

	for (unsigned int cpu = 0; cpu < records->cpus; cpu++)
		for (unsigned int rxq = 0; rxq < records->rxqs; rxq++)
			take_record(records_find(records, cpu, rxq),
				    &records->taken[cpu * records->per_cpu + rxq]);
	return 0;
}

static int read_record(const struct record *taken, unsigned int cpu, unsigned int rxq,
		       struct counters *counters)
{
	int result = 0;

	for (int action = 0; !result && action < ACTIONS; action++)
		if (taken->packets[action])
			result = counters_set(counters, taken->packets[action],
					      "cpu%u.rxq%u.%s.packets", cpu, rxq,
					      action_names[action]);
	return result;
}

int records_read(const void *context, struct counters *counters)
{
	const struct records *records = context;
	int result = 0;

	for (unsigned int cpu = 0; cpu < records->cpus; cpu++)
		for (unsigned int rxq = 0; !result && rxq < records->rxqs; rxq++)
			result = read_record(&records->taken[cpu * records->per_cpu + rxq], cpu,
					     rxq, counters);
	return result;
}

static int read_remote(const struct record *taken, unsigned int cpu, struct counters *counters)
{
	int result = 0;

	for (int action = 0; !result && action < ACTIONS; action++)
		if (taken->packets[action])
			result = counters_set(counters, taken->packets[action], "cpu%u.%s.packets",
					      cpu, action_names[action]);
	return result;
}

int records_read_remote(const void *context, struct counters *counters)
{
	const struct records *records = context;
	int result = 0;

	for (unsigned int cpu = 0; !result && cpu < records->cpus; cpu++)
		result = read_remote(&records->taken[cpu * records->per_cpu], cpu, counters);
	return result;
}

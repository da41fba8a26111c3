// SPDX-License-Identifier: GPL-2.0-or-later
#include "records.h"

static const char *const action_names[] = {"XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX",
					   "XDP_REDIRECT"};

#define ACTIONS (int)(sizeof(action_names) / sizeof(action_names[0]))

const struct record *records_at(const struct records *records, unsigned int cpu, unsigned int rxq)
{
	return &records->records[cpu * RECORD_RXQS + rxq];
}

static int read_record(const struct record *record, unsigned int cpu, unsigned int rxq,
		       struct counters *counters)
{
	int result = 0;

	for (int action = 0; !result && action < ACTIONS; action++) {
		__u64 packets = records_load(&record->packets[action]);
		__u64 bytes = records_load(&record->bytes[action]);

		if (!packets)
			continue;
		result = counters_set(counters, packets, "cpu%u.rxq%u.%s.packets", cpu, rxq,
				      action_names[action]);
		if (!result)
			result = counters_set(counters, bytes, "cpu%u.rxq%u.%s.bytes", cpu, rxq,
					      action_names[action]);
	}
	return result;
}

int records_read(const void *context, struct counters *counters)
{
	const struct records *records = context;
	int result = 0;

	for (unsigned int cpu = 0; cpu < records->cpus; cpu++)
		for (unsigned int rxq = 0; !result && rxq < records->rxqs; rxq++)
			result = read_record(records_at(records, cpu, rxq), cpu, rxq, counters);
	return result;
}

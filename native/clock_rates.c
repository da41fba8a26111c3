// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How fast each CPU ran, by the perf events of the PMU `msr`: aperf / mperf is its clock while it
 * did not sleep, as a share of the one that tsc has. They count on their own and are read at edges.
 */
#include "clock_rates.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "perf.h"
#include "spec.h"
#include "sysfs.h"

#define PMU "/sys/bus/event_source/devices/msr"

static const char *const names[] = {"tsc", "aperf", "mperf", "smi"};
#define EVENTS (int)(sizeof(names) / sizeof(names[0]))

struct clock_rates {
	int fds[MAX_CPUS][EVENTS]; /* -1: no such CPU, or no such event */
};

/* The file of an event says something like "event=0x01". */
static bool find_event(const char *name, uint64_t *config)
{
	char path[SYSFS_PATH_MAX], line[64];

	sysfs_path(path, PMU "/events/%s", name);
	return !sysfs_read_line(path, line, sizeof(line)) &&
	       sscanf(line, "event=%" SCNx64, config) == 1;
}

static int open_event(struct clock_rates *rates, uint32_t type, int event)
{
	uint64_t config;

	if (!find_event(names[event], &config))
		return 0;
	for (int cpu = 0; cpu < MAX_CPUS; cpu++) {
		int fd = perf_open(type, config, cpu, -1);

		if (fd >= 0)
			rates->fds[cpu][event] = fd;
		else if (!perf_is_no_cpu(fd))
			return fail(-fd, names[event], "perf_event_open");
	}
	return 0;
}

int clock_rates_create(struct clock_rates **result_rates)
{
	struct clock_rates *rates = malloc(sizeof(*rates));
	uint64_t type;
	int result = rates ? 0 : fail(ENOMEM, PMU, "create");

	*result_rates = rates;
	if (result)
		return result;
	memset(rates->fds, -1, sizeof(rates->fds));
	result = -sysfs_read_number(PMU "/type", &type);
	if (result)
		result = fail(result, PMU, "find");
	perf_raise_files();
	for (int event = 0; !result && event < EVENTS; event++)
		result = open_event(rates, type, event);
	if (!result)
		return 0;
	clock_rates_destroy(rates);
	*result_rates = NULL;
	return result;
}

void clock_rates_destroy(struct clock_rates *rates)
{
	if (!rates)
		return;
	for (int cpu = 0; cpu < MAX_CPUS; cpu++)
		for (int event = 0; event < EVENTS; event++)
			if (rates->fds[cpu][event] >= 0)
				close(rates->fds[cpu][event]);
	free(rates);
}

int clock_rates_read(const void *context, struct counters *counters)
{
	const struct clock_rates *rates = context;
	struct perf_single value;
	int result = 0;

	for (int cpu = 0; cpu < MAX_CPUS; cpu++)
		for (int event = 0; !result && event < EVENTS; event++) {
			if (rates->fds[cpu][event] < 0)
				continue;
			if (read(rates->fds[cpu][event], &value, sizeof(value)) < 0)
				return fail(errno, names[event], "read");
			result = counters_set(counters, value.value, "cpu%d.%s", cpu, names[event]);
		}
	return result;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Groups of events of the performance counters, one group a trial: a group is as large as
 * processors have counters, so that nothing is multiplexed. Where it is all the same, running <
 * enabled tells.
 */
#include "pmu.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "perf.h"
#include "spec.h"

#define EVENTS_MAX 5

struct event {
	const char *name; /* as perf(1) spells it */
	uint32_t type;
	uint64_t config;
};

#define HARDWARE(text, id) {text, PERF_TYPE_HARDWARE, PERF_COUNT_HW_##id}
#define SOFTWARE(text, id) {text, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##id}
#define CACHE(text, cache, op, result)                                    \
	{text, PERF_TYPE_HW_CACHE,                                        \
	 PERF_COUNT_HW_CACHE_##cache | PERF_COUNT_HW_CACHE_OP_##op << 8 | \
		 PERF_COUNT_HW_CACHE_RESULT_##result << 16}

const char *const pmu_group_names[] = {"core", "cache", "llc", "tlb", "stall", "software", NULL};

static const struct event groups[][EVENTS_MAX] = {
	{
		HARDWARE("cycles", CPU_CYCLES),
		HARDWARE("ref-cycles", REF_CPU_CYCLES),
		HARDWARE("instructions", INSTRUCTIONS),
		HARDWARE("branches", BRANCH_INSTRUCTIONS),
		HARDWARE("branch-misses", BRANCH_MISSES),
	},
	{
		CACHE("L1-dcache-loads", L1D, READ, ACCESS),
		CACHE("L1-dcache-load-misses", L1D, READ, MISS),
		CACHE("L1-icache-load-misses", L1I, READ, MISS),
		HARDWARE("cache-references", CACHE_REFERENCES),
		HARDWARE("cache-misses", CACHE_MISSES),
	},
	{
		CACHE("LLC-loads", LL, READ, ACCESS),
		CACHE("LLC-load-misses", LL, READ, MISS),
		CACHE("LLC-stores", LL, WRITE, ACCESS),
		CACHE("LLC-store-misses", LL, WRITE, MISS),
	},
	{
		CACHE("dTLB-loads", DTLB, READ, ACCESS),
		CACHE("dTLB-load-misses", DTLB, READ, MISS),
		CACHE("dTLB-store-misses", DTLB, WRITE, MISS),
		CACHE("iTLB-load-misses", ITLB, READ, MISS),
	},
	{
		HARDWARE("cycles", CPU_CYCLES),
		HARDWARE("instructions", INSTRUCTIONS),
		HARDWARE("stalled-cycles-frontend", STALLED_CYCLES_FRONTEND),
		HARDWARE("stalled-cycles-backend", STALLED_CYCLES_BACKEND),
	},
	{
		/* No clock: in a group only the leader's kind was seen to count (6.18). */
		SOFTWARE("context-switches", CONTEXT_SWITCHES),
		SOFTWARE("cpu-migrations", CPU_MIGRATIONS),
		SOFTWARE("page-faults", PAGE_FAULTS),
	},
};

/* What read(2) gives of a group: PERF_FORMAT_GROUP with both times. */
struct reading {
	uint64_t len;
	uint64_t enabled_ns;
	uint64_t running_ns;
	uint64_t values[EVENTS_MAX];
};

struct cpu {
	int cpu;
	int fds[EVENTS_MAX]; /* the first is the leader */
	struct reading taken;
};

struct pmu {
	int group;
	struct event events[EVENTS_MAX]; /* those that this machine has */
	size_t events_len;
	json_t *absent; /* the others, with the reason */
	size_t cpus_len;
	struct cpu cpus[];
};

static int open_event(const struct event *event, int cpu, int leader)
{
	return perf_open(event->type, event->config, cpu, leader);
}

static const char *explain(int err)
{
	return err == ENOENT || err == EOPNOTSUPP ? "this processor has no counter for it"
						  : strerror(err);
}

/* Which of the group's events there are, tried on the first CPU. */
static int find_events(struct pmu *pmu, int cpu)
{
	int leader = -1, fds[EVENTS_MAX];
	const struct event *event = groups[pmu->group];

	for (size_t i = 0; i < EVENTS_MAX && event[i].name; i++) {
		int fd = open_event(&event[i], cpu, leader);

		if (fd < 0) {
			json_object_set_new(pmu->absent, event[i].name, json_string(explain(-fd)));
			errno = -fd;
			continue;
		}
		leader = leader < 0 ? fd : leader;
		fds[pmu->events_len] = fd;
		pmu->events[pmu->events_len++] = event[i];
	}
	for (size_t i = 0; i < pmu->events_len; i++)
		close(fds[i]);
	if (!pmu->events_len)
		return fail_hint(fail_because(errno, pmu_group_names[pmu->group], "perf_event_open",
					      "%s", explain(errno)),
				 "group software counts without hardware");
	return 0;
}

static int open_cpu(struct pmu *pmu, int number)
{
	struct cpu *cpu = &pmu->cpus[pmu->cpus_len];

	cpu->cpu = number;
	for (size_t i = 0; i < EVENTS_MAX; i++)
		cpu->fds[i] = -1;
	for (size_t i = 0; i < pmu->events_len; i++) {
		cpu->fds[i] = open_event(&pmu->events[i], number, cpu->fds[0]);
		if (!i && perf_is_no_cpu(cpu->fds[0]))
			return 0;
		if (cpu->fds[i] < 0) {
			pmu->cpus_len++;
			return fail(-cpu->fds[i], pmu->events[i].name, "perf_event_open");
		}
	}
	pmu->cpus_len++;
	return 0;
}

struct pmu *pmu_create(int group)
{
	struct pmu *pmu = calloc(1, sizeof(*pmu) + MAX_CPUS * sizeof(pmu->cpus[0]));
	int result = 0;

	if (!pmu || !(pmu->absent = json_object())) {
		free(pmu);
		fail(ENOMEM, "pmu", "create");
		return NULL;
	}
	pmu->group = group;
	perf_raise_files();
	result = find_events(pmu, sched_getcpu());
	for (int cpu = 0; !result && cpu < MAX_CPUS; cpu++)
		result = open_cpu(pmu, cpu);
	if (!result)
		return pmu;
	pmu_destroy(pmu);
	return NULL;
}

void pmu_destroy(struct pmu *pmu)
{
	if (!pmu)
		return;
	for (size_t i = 0; i < pmu->cpus_len; i++)
		for (size_t j = 0; j < EVENTS_MAX && pmu->cpus[i].fds[j] >= 0; j++)
			close(pmu->cpus[i].fds[j]);
	json_decref(pmu->absent);
	free(pmu);
}

json_t *pmu_describe(const struct pmu *pmu)
{
	json_t *events = json_object();

	for (size_t i = 0; events && i < pmu->events_len; i++)
		json_object_set_new(events, pmu->events[i].name,
				    json_sprintf("type %u config 0x%llx", pmu->events[i].type,
						 (unsigned long long)pmu->events[i].config));
	return json_pack("{s:s, s:o, s:O}", "group", pmu_group_names[pmu->group], "events", events,
			 "absent", pmu->absent);
}

int pmu_take(void *context)
{
	struct pmu *pmu = context;

	for (size_t i = 0; i < pmu->cpus_len; i++) {
		struct cpu *cpu = &pmu->cpus[i];

		if (read(cpu->fds[0], &cpu->taken, sizeof(cpu->taken)) < 0)
			return fail(errno, pmu->events[0].name, "read");
	}
	return 0;
}

int pmu_read(const void *context, struct counters *counters)
{
	const struct pmu *pmu = context;
	int result = 0;

	for (size_t i = 0; i < pmu->cpus_len; i++) {
		const struct cpu *cpu = &pmu->cpus[i];

		for (size_t j = 0; !result && j < cpu->taken.len; j++)
			result = counters_set(counters, cpu->taken.values[j], "cpu%d.%s", cpu->cpu,
					      pmu->events[j].name);
		if (!result)
			result = counters_set(counters, cpu->taken.enabled_ns, "cpu%d.enabled_ns",
					      cpu->cpu);
		if (!result)
			result = counters_set(counters, cpu->taken.running_ns, "cpu%d.running_ns",
					      cpu->cpu);
	}
	return result;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "xdp_errors_read.h"

#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>

#include "error.h"

#define LEN(ARRAY) (int)(sizeof(ARRAY) / sizeof((ARRAY)[0]))

static const char *const action_names[OBSERVE_ACTIONS] = {
	"XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT", "5", "6", "7",
};

int observing_take(void *context)
{
	struct observing *observing = context;
	__u32 key = 0;

	if (bpf_map_lookup_elem(observing->fd, &key, observing->counts))
		return fail(errno, "observe_errors", "read");
	return 0;
}

/* Only what happened is there. */
static int keep(struct counters *counters, int cpu, const char *what, const char *name,
		uint64_t count)
{
	return count ? counters_set(counters, count, "cpu%d.%s.%s", cpu, what, name) : 0;
}

static int keep_errnos(struct counters *counters, int cpu, const char *what, const __u64 *counts)
{
	int result = 0;

	for (int err = 0; !result && err < OBSERVE_ERRNOS; err++)
		result = keep(counters, cpu, what,
			      err == OBSERVE_ERRNOS - 1 ? "other" : strerrorname_np(err) ?: "0",
			      counts[err]);
	return result;
}

static int keep_errors(const struct observed *seen, int cpu, struct counters *counters)
{
	const struct {
		const char *what;
		const char *name;
		uint64_t count;
	} sums[] = {
		{"devmap_xmit", "calls", seen->devmap_xmit.calls},
		{"devmap_xmit", "sent", seen->devmap_xmit.sent},
		{"devmap_xmit", "drops", seen->devmap_xmit.drops},
		{"cpumap_enqueue", "calls", seen->cpumap_enqueue.calls},
		{"cpumap_enqueue", "processed", seen->cpumap_enqueue.processed},
		{"cpumap_enqueue", "drops", seen->cpumap_enqueue.drops},
		{"cpumap_kthread", "calls", seen->cpumap_kthread.calls},
		{"cpumap_kthread", "processed", seen->cpumap_kthread.processed},
		{"cpumap_kthread", "drops", seen->cpumap_kthread.drops},
		{"cpumap_kthread", "sched", seen->cpumap_kthread.sched},
		{"cpumap_kthread", "pass", seen->cpumap_kthread.pass},
		{"cpumap_kthread", "drop", seen->cpumap_kthread.drop},
		{"cpumap_kthread", "redirect", seen->cpumap_kthread.redirect},
	};
	int result = 0;

	for (int i = 0; !result && i < OBSERVE_ACTIONS; i++)
		result = keep(counters, cpu, "exception", action_names[i], seen->exception[i]);
	for (int i = 0; !result && i < LEN(sums); i++)
		result = keep(counters, cpu, sums[i].what, sums[i].name, sums[i].count);
	if (!result)
		result = keep_errnos(counters, cpu, "redirect_err", seen->redirect_err);
	return result ? result
		      : keep_errnos(counters, cpu, "devmap_xmit.err", seen->devmap_xmit.err);
}

int observing_read_errors(const void *context, struct counters *counters)
{
	const struct observing *observing = context;
	int result = 0;

	for (int cpu = 0; !result && cpu < observing->cpus; cpu++)
		result = keep_errors(&observing->counts[cpu], cpu, counters);
	return result;
}

int observing_read_polls(const void *context, struct counters *counters)
{
	const struct observing *observing = context;
	int result = 0;

	for (int cpu = 0; cpu < observing->cpus; cpu++)
		for (int work = 0; !result && work < OBSERVE_WORKS; work++)
			if (observing->counts[cpu].napi_poll[work])
				result = counters_set(counters,
						      observing->counts[cpu].napi_poll[work],
						      "cpu%d.work%d", cpu, work);
	return result;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* When the next frame may be sent: by the clock, or by what came back. */
#include "pace.h"

#include <linux/bpf.h>

#include "clock.h"

/* A hundred times what a frame takes there and back on any port. */
#define RETURN_BUDGET_NS (100 * NS_PER_MS)

uint64_t pace_step(uint64_t rate_pps, size_t threads)
{
	return ((uint64_t)NS_PER_S << PACE_SHIFT) * threads / rate_pps;
}

static void store(__u64 *value, uint64_t now)
{
	__atomic_store_n(value, now, __ATOMIC_RELAXED);
}

uint64_t pace_due(struct pace *pace, uint64_t step, uint64_t sent)
{
	uint64_t now = now_ns();

	if (!pace->start_ns)
		store(&pace->start_ns, now);
	store(&pace->seen, (now - pace->start_ns) << PACE_SHIFT);
	pace->next = sent * step;
	if (pace->next < pace->seen && pace->seen - pace->next > pace->late)
		store(&pace->late, pace->seen - pace->next);
	return pace->seen / step + 1;
}

uint64_t pace_due_at(const struct pace *pace, uint64_t step, int64_t now)
{
	int64_t start_ns = records_load(&pace->start_ns);

	if (!start_ns || now < start_ns)
		return 0;
	return ((uint64_t)(now - start_ns) << PACE_SHIFT) / step + 1;
}

static uint64_t count_returned(const struct records *back)
{
	uint64_t packets = 0;

	for (unsigned int cpu = 0; cpu < back->cpus; cpu++)
		for (unsigned int rxq = 0; rxq < back->rxqs; rxq++)
			packets += records_load(&records_find(back, cpu, rxq)->packets[XDP_DROP]);
	return packets;
}

/* What has not returned for so long never will, and the load must not end with it. */
uint64_t closed_loop_due(struct closed_loop *loop, uint64_t sent)
{
	uint64_t returned = count_returned(loop->back);
	int64_t now = now_ns();
	uint64_t due;

	/* Lost frames come late, or others' frames come: neither may add to those on their way. */
	if ((int64_t)(returned + loop->lost - sent) > 0)
		loop->lost = sent - returned;
	due = returned + loop->lost + loop->outstanding;
	if (returned != loop->returned || sent < due) {
		loop->returned = returned;
		loop->moved_ns = now;
	} else if (now - loop->moved_ns > RETURN_BUDGET_NS) {
		loop->lost = sent - returned;
		loop->moved_ns = now;
		__atomic_store_n(&loop->timeouts, loop->timeouts + 1, __ATOMIC_RELAXED);
	}
	return due;
}

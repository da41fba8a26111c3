// SPDX-License-Identifier: GPL-2.0-or-later
#include "generate.h"

const volatile struct paced_knobs knobs;

struct paced paced;

/* While frames are late the clock is let be: they are due whatever it says. */
static __always_inline int is_due(struct pace *pace)
{
	__u64 now_ns;

	if (pace->next < pace->seen)
		return 1;
	now_ns = bpf_ktime_get_ns();
	if (!pace->start_ns)
		pace->start_ns = now_ns;
	pace->seen = (now_ns - pace->start_ns) << PACE_SHIFT;
	return pace->next <= pace->seen;
}

/* A frame that is dropped comes back at once, as the next one: dropping is waiting. */
static __always_inline int pace_frame(struct xdp_md *ctx, _Bool headers)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct pace *pace = &paced.paces[cpu & (RECORD_CPUS - 1)];

	if (!is_due(pace))
		return XDP_DROP;
	if (pace->seen - pace->next > pace->late)
		pace->late = pace->seen - pace->next;
	pace->next += knobs.step;
	return send_frame(ctx, paced.records, cpu, &knobs.frame, headers);
}

SEC("xdp")
int generate_paced(struct xdp_md *ctx)
{
	return pace_frame(ctx, 0);
}

SEC("xdp")
int generate_paced_restored(struct xdp_md *ctx)
{
	return pace_frame(ctx, 1);
}

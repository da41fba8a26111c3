// SPDX-License-Identifier: GPL-2.0-or-later
#include "generate.h"

const volatile struct generate_knobs knobs;

/* The frames are of the loopback device, as the kernel makes them: all of its queue 0. */
struct record records[RECORD_CPUS * RECORDS_ONE_QUEUE];

SEC("xdp")
int generate_live(struct xdp_md *ctx)
{
	return send_frame(ctx, records, bpf_get_smp_processor_id(), &knobs, 0);
}

SEC("xdp")
int generate_live_restored(struct xdp_md *ctx)
{
	return send_frame(ctx, records, bpf_get_smp_processor_id(), &knobs, 1);
}

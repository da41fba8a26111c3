// SPDX-License-Identifier: GPL-2.0-or-later
#include "count.h"

const volatile struct redirect_knobs knobs;

SEC("xdp")
int xdp_redirect_swap_macs(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;

	if ((void *)(eth + 1) > data_end)
		return count(ctx, XDP_ABORTED);
	swap_macs(eth);
	count_slot(ctx, XDP_REDIRECT);
	/* The helper only notes the index; a port that is gone shows in the driver's counters. */
	return bpf_redirect(knobs.egress_ifindex, 0);
}

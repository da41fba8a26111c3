// SPDX-License-Identifier: GPL-2.0-or-later
#include "count.h"
#include "ports.h"

SEC("xdp")
int xdp_redirect_map_swap_macs(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;

	if ((void *)(eth + 1) > data_end)
		return count(ctx, XDP_ABORTED);
	swap_macs(eth);
	/* A port that is gone leaves its slot empty, which gives XDP_ABORTED. */
	return count_redirect(ctx, bpf_redirect_map(&ports, 0, XDP_ABORTED), XDP_ABORTED);
}

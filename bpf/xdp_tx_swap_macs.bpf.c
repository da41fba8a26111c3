// SPDX-License-Identifier: GPL-2.0-or-later
#include "count.h"

SEC("xdp")
int xdp_tx_swap_macs(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;

	if ((void *)(eth + 1) > data_end)
		return count(ctx, XDP_ABORTED);
	swap_macs(eth);
	return count(ctx, XDP_TX);
}

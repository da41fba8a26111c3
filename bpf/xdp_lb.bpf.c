// SPDX-License-Identifier: GPL-2.0-or-later
#include "balance.h"

SEC("xdp")
int xdp_tx_lb(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;
	struct flow flow;

	if (!work_find_flow(eth, data_end, &flow) || !balance(eth, &flow))
		return count(ctx, XDP_PASS);
	return count(ctx, XDP_TX);
}

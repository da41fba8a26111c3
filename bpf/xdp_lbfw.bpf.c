// SPDX-License-Identifier: GPL-2.0-or-later
#include "acl.h"
#include "balance.h"

SEC("xdp")
int xdp_tx_lbfw(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;
	struct flow flow;

	if (!work_find_flow(eth, data_end, &flow))
		return count(ctx, XDP_PASS);
	if (bpf_map_lookup_elem(&acl, &flow))
		return count(ctx, XDP_DROP);
	if (!balance(eth, &flow))
		return count(ctx, XDP_PASS);
	return count(ctx, XDP_TX);
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "count.h"
#include "work_csum.h"

const volatile struct work_knobs knobs SEC(".rodata.work");

/* What is no datagram passes. */
SEC("xdp")
int xdp_drop_csum(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;

	if (!work_checksum((void *)(long)ctx->data, data_end, knobs.iterations))
		return count(ctx, XDP_PASS);
	return count(ctx, XDP_DROP);
}

SEC("xdp")
int xdp_tx_csum(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;

	if (!work_checksum(eth, data_end, knobs.iterations))
		return count(ctx, XDP_PASS);
	swap_macs(eth);
	return count(ctx, XDP_TX);
}

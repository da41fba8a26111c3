// SPDX-License-Identifier: GPL-2.0-or-later
#include "count.h"

SEC("xdp")
int xdp_drop_read_data(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;

	if ((void *)(eth + 1) > data_end)
		return count(ctx, XDP_ABORTED);
	/* The load is the case: volatile, because nothing is done with the value. */
	(void)*(volatile __be16 *)((void *)eth + 2 * ETH_ALEN);
	return count(ctx, XDP_DROP);
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "program.h"

/* The limit that xdp_tx_swap_macs is compared with. */
SEC("xdp")
int bare_tx(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;

	if ((void *)(eth + 1) > data_end)
		return XDP_ABORTED;
	swap_macs(eth);
	return XDP_TX;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "ports.h"

/* The limit that xdp_redirect_map_swap_macs is compared with. */
SEC("xdp")
int bare_redirect_map(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;

	if ((void *)(eth + 1) > data_end)
		return XDP_ABORTED;
	swap_macs(eth);
	return bpf_redirect_map(&ports, 0, XDP_ABORTED);
}

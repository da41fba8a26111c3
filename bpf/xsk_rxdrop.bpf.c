// SPDX-License-Identifier: GPL-2.0-or-later
#include "count.h"

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, RECORD_RXQS);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

SEC("xdp")
int xsk_rxdrop(struct xdp_md *ctx)
{
	__u32 queue_id = ctx->rx_queue_index;

	/* A queue without a socket gives XDP_PASS. */
	return count_redirect(ctx, bpf_redirect_map(&sockets, queue_id, XDP_PASS), XDP_PASS);
}

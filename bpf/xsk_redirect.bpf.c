// SPDX-License-Identifier: GPL-2.0-or-later
#include "count.h"

const volatile struct spread_knobs knobs;

/* Those of queue 0 first, as many of each queue. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, RECORD_RXQS);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

SEC("xdp")
int xsk_redirect(struct xdp_md *ctx)
{
	__u32 queue_id = ctx->rx_queue_index;

	/* A queue without a socket gives XDP_PASS. */
	return count_redirect(ctx, bpf_redirect_map(&sockets, queue_id, XDP_PASS), XDP_PASS);
}

/* The sockets of a queue take packets in turn. */
SEC("xdp")
int xsk_spread(struct xdp_md *ctx)
{
	__u32 socket = ctx->rx_queue_index << knobs.sockets_shift;

	socket |= find_record(ctx)->packets[RECORD_NEXT]++ & knobs.sockets_mask;
	return count_redirect(ctx, bpf_redirect_map(&sockets, socket, XDP_PASS), XDP_PASS);
}

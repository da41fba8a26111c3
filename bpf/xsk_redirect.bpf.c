// SPDX-License-Identifier: GPL-2.0-or-later
#include "count.h"
#include "sockets.h"

const volatile struct spread_knobs knobs;

SEC("xdp")
int xsk_redirect(struct xdp_md *ctx)
{
	__u32 queue_id = find_queue(ctx);

	/* A queue without a socket gives XDP_PASS. */
	return count_redirect(ctx, bpf_redirect_map(&sockets, queue_id, XDP_PASS), XDP_PASS);
}

/* The sockets of a queue, which follow each other in the map, take packets in turn. */
SEC("xdp")
int xsk_spread(struct xdp_md *ctx)
{
	__u32 socket = find_queue(ctx) << knobs.sockets_shift;

	socket |= find_record(ctx)->packets[RECORD_NEXT]++ & knobs.sockets_mask;
	return count_redirect(ctx, bpf_redirect_map(&sockets, socket, XDP_PASS), XDP_PASS);
}

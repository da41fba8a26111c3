// SPDX-License-Identifier: GPL-2.0-or-later
#include "acl.h"
#include "count.h"
#include "sockets.h"

/* A firewall in front of a socket; what is no flow passes it. */
SEC("xdp")
int xsk_l2fwd_fw(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	__u32 queue_id = find_queue(ctx);
	struct flow flow;

	if (work_find_flow((void *)(long)ctx->data, data_end, &flow) &&
	    bpf_map_lookup_elem(&acl, &flow))
		return count(ctx, XDP_DROP);
	return count_redirect(ctx, bpf_redirect_map(&sockets, queue_id, XDP_PASS), XDP_PASS);
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "acl.h"
#include "count.h"

SEC("xdp")
int xdp_drop_fw(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	struct flow flow;

	if (work_find_flow((void *)(long)ctx->data, data_end, &flow) &&
	    bpf_map_lookup_elem(&acl, &flow))
		return count(ctx, XDP_DROP);
	return count(ctx, XDP_PASS);
}

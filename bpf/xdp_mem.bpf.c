// SPDX-License-Identifier: GPL-2.0-or-later
#include "workers.h"
#include "work_mem.h"

/* As large as the working set: the agent says so before it loads the program. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct line);
} lines SEC(".maps");

static __always_inline void touch_line(void)
{
	__u32 key = work_next_line(find_worker(), knobs.lines);
	struct line *line = bpf_map_lookup_elem(&lines, &key);

	if (line)
		line->packets++;
}

SEC("xdp")
int xdp_drop_mem(struct xdp_md *ctx)
{
	touch_line();
	return count(ctx, XDP_DROP);
}

SEC("xdp")
int xdp_tx_mem(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;

	if ((void *)(eth + 1) > data_end)
		return count(ctx, XDP_ABORTED);
	touch_line();
	swap_macs(eth);
	return count(ctx, XDP_TX);
}

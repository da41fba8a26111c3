// SPDX-License-Identifier: GPL-2.0-or-later
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "GPL";

struct {
	__u64 packets;
	__u64 in_fragments;
	__u64 bytes;
} seen;

/* One packet at a time: the generator has one CPU. */
SEC("xdp.frags")
int frags_seen(struct xdp_md *ctx)
{
	__u64 len = bpf_xdp_get_buff_len(ctx);

	seen.packets++;
	seen.bytes += len;
	if (len > ctx->data_end - ctx->data)
		seen.in_fragments++;
	return XDP_DROP;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_TOUCH_H
#define XDPREPRO_TOUCH_H

/*
 * What the programs do with a packet before its verdict. Each touch returns 0, or 1 where the
 * packet is not what the case is about, which is then aborted. By pointer, and by helpers that
 * copy, which reach data in fragments too.
 */

#include "program.h"

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>

/* The generators send IPv4: their packets are not to jump. */
#define RARE(CONDITION) __builtin_expect(CONDITION, 0)

/* A load is the case, and clang leaves out one whose value nobody wants. */
#define READ(VALUE) __asm__ volatile("" ::"r"((__u64)(VALUE)))

static __always_inline int no_touch(struct xdp_md *ctx)
{
	return 0;
}

static __always_inline int read_data(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;

	if ((void *)(eth + 1) > data_end)
		return 1;
	READ(read_proto(eth));
	return 0;
}

static __always_inline int parse_ip(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;
	struct iphdr *ip = (void *)(eth + 1);
	struct ipv6hdr *ip6 = (void *)(eth + 1);

	if (RARE((void *)(ip + 1) > data_end))
		return 1;
	if (RARE(read_proto(eth) != bpf_htons(ETH_P_IP))) {
		if (read_proto(eth) != bpf_htons(ETH_P_IPV6) || (void *)(ip6 + 1) > data_end)
			return 1;
		READ(ip6->nexthdr);
		return 0;
	}
	if (RARE(ip->ihl < sizeof(*ip) / 4) || RARE((void *)ip + 4 * ip->ihl > data_end))
		return 1;
	READ(ip->protocol);
	return 0;
}

static __always_inline int swap_macs_of(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;

	if ((void *)(eth + 1) > data_end)
		return 1;
	swap_macs(eth);
	return 0;
}

static __always_inline int read_data_load_bytes(struct xdp_md *ctx)
{
	__be16 proto;

	return bpf_xdp_load_bytes(ctx, 2 * ETH_ALEN, &proto, sizeof(proto)) != 0;
}

static __always_inline int parse_ip_load_bytes(struct xdp_md *ctx)
{
	struct ethhdr eth;
	struct iphdr ip;
	struct ipv6hdr ip6;

	if (bpf_xdp_load_bytes(ctx, 0, &eth, sizeof(eth)))
		return 1;
	if (read_proto(&eth) == bpf_htons(ETH_P_IP))
		return bpf_xdp_load_bytes(ctx, sizeof(eth), &ip, sizeof(ip)) ||
		       ip.ihl < sizeof(ip) / 4;
	return read_proto(&eth) != bpf_htons(ETH_P_IPV6) ||
	       bpf_xdp_load_bytes(ctx, sizeof(eth), &ip6, sizeof(ip6));
}

static __always_inline int swap_macs_of_load_bytes(struct xdp_md *ctx)
{
	__u16 macs[6], swapped[6];

	if (bpf_xdp_load_bytes(ctx, 0, macs, sizeof(macs)))
		return 1;
	for (int i = 0; i < 6; i++)
		swapped[i] = macs[(i + 3) % 6];
	return bpf_xdp_store_bytes(ctx, 0, swapped, sizeof(swapped)) != 0;
}

/* A program with the name of its case: a touch, and what then becomes of the packet. */
#define TOUCHING(NAME, TOUCH, VERDICT)                  \
	SEC("xdp")                                      \
	int NAME(struct xdp_md *ctx)                    \
	{                                               \
		if (RARE(TOUCH(ctx)))                   \
			return count(ctx, XDP_ABORTED); \
		return VERDICT;                         \
	}

#define NO_TOUCH(OP, VERDICT) TOUCHING(OP##_no_touch, no_touch, VERDICT)

#define READ_DATA(OP, VERDICT)                       \
	TOUCHING(OP##_read_data, read_data, VERDICT) \
	TOUCHING(OP##_read_data_load_bytes, read_data_load_bytes, VERDICT)

#define PARSE_IP(OP, VERDICT)                      \
	TOUCHING(OP##_parse_ip, parse_ip, VERDICT) \
	TOUCHING(OP##_parse_ip_load_bytes, parse_ip_load_bytes, VERDICT)

#define SWAP_MACS(OP, VERDICT)                          \
	TOUCHING(OP##_swap_macs, swap_macs_of, VERDICT) \
	TOUCHING(OP##_swap_macs_load_bytes, swap_macs_of_load_bytes, VERDICT)

#define EVERY_TOUCH(OP, VERDICT) \
	NO_TOUCH(OP, VERDICT)    \
	READ_DATA(OP, VERDICT)   \
	PARSE_IP(OP, VERDICT)    \
	SWAP_MACS(OP, VERDICT)

#endif

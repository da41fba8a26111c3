/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_FLOW_HASH_H
#define XDPREPRO_FLOW_HASH_H

#include "program.h"

#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>

/* Knuth's multiplier: the golden ratio in 32 bits, whose high bits depend on all of the value. */
#define SPREAD(VALUE) ((__u32)(VALUE) * 2654435761u)

static __always_inline __u32 hash_ports(void *at, void *data_end, __u8 protocol, __u32 seed)
{
	__u32 *pair = at; /* the ports of TCP and UDP */

	if ((protocol != IPPROTO_TCP && protocol != IPPROTO_UDP) || (void *)(pair + 1) > data_end)
		return SPREAD(seed ^ protocol);
	return SPREAD(SPREAD(seed ^ protocol) ^ *pair);
}

/* Equal for the packets of a flow, in one direction; 0 of what is neither IPv4 nor IPv6. */
static __always_inline __u32 hash_flow(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;
	struct iphdr *ip = (void *)(eth + 1);
	struct ipv6hdr *ip6 = (void *)(eth + 1);
	__u32 seed = 0;

	if ((void *)(ip + 1) > data_end)
		return 0;
	if (read_proto(eth) == bpf_htons(ETH_P_IP))
		return hash_ports((void *)ip + 4 * ip->ihl, data_end, ip->protocol,
				  SPREAD(ip->saddr) ^ ip->daddr);
	if (read_proto(eth) != bpf_htons(ETH_P_IPV6) || (void *)(ip6 + 1) > data_end)
		return 0;
	for (int i = 0; i < 4; i++)
		seed = SPREAD(SPREAD(seed ^ ip6->saddr.in6_u.u6_addr32[i]) ^
			      ip6->daddr.in6_u.u6_addr32[i]);
	return hash_ports(ip6 + 1, data_end, ip6->nexthdr, seed);
}

#endif

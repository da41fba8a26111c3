/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_WORK_FLOW_H
#define XDPREPRO_WORK_FLOW_H

/* The flow that a packet belongs to: the key of access lists and sessions. */

#include "work_packet.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the protocol comes after the ports");

#define WORK_ADDRESSES_OFFSET (ETH_HLEN + 12)

/* As on the wire, and as two numbers. */
struct flow {
	union {
		struct {
			__be32 saddr;
			__be32 daddr;
		};
		__u64 addresses;
	};
	union {
		struct {
			__be16 sport;
			__be16 dport;
			__u8 protocol;
			__u8 zero[3];
		};
		__u64 ports;
	};
};

/* False: the packet is none of a flow: not IPv4, with options, a fragment, neither UDP nor TCP. */
static __always_inline _Bool work_find_flow(const void *data, const void *end, struct flow *flow)
{
	const struct iphdr *ip = data + ETH_HLEN;
	const struct udphdr *udp = (const void *)(ip + 1);
	__u8 protocol;

	if ((const void *)(udp + 1) > end || !work_is_plain_ip(data) ||
	    ip->frag_off & __constant_htons(0x3fff))
		return 0;
	protocol = ip->protocol;
	if (protocol != PROTOCOL_UDP && protocol != PROTOCOL_TCP)
		return 0;
	/* By way of the members clang would know their alignment, and read 4 bytes at a time. */
	flow->addresses = *(const work_wire64 *)(data + WORK_ADDRESSES_OFFSET);
	flow->ports = *(const work_wire32 *)udp | (__u64)protocol << 32;
	return 1;
}

/* Two multiplications; each bit of the result depends on all of the flow. */
static __always_inline __u64 work_hash(const struct flow *flow)
{
	__u64 hash = flow->addresses * 0x9e3779b97f4a7c15ULL;

	hash = ((hash ^ hash >> 32) ^ flow->ports) * 0xd6e8feb86659fd93ULL;
	return hash ^ hash >> 32;
}

#endif

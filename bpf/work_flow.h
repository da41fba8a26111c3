/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_WORK_FLOW_H
#define XDPREPRO_WORK_FLOW_H

/* The flow that a packet belongs to: the key of access lists and sessions. */

#include "work_packet.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the protocol comes after the ports");

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

/* A packet is not aligned to more than 2 bytes, which no machine minds that this runs on. */
typedef __u64 __attribute__((may_alias)) work_wire64;
typedef __u32 __attribute__((may_alias)) work_wire32;

/* False: the packet is none of a flow: not IPv4, with options, a fragment, neither UDP nor TCP. */
static __always_inline _Bool work_find_flow(const void *data, const void *end, struct flow *flow)
{
	const struct iphdr *ip = data + ETH_HLEN;
	const struct udphdr *udp = (const void *)(ip + 1);

	if ((const void *)(udp + 1) > end || !work_is_plain_ip(data) ||
	    ip->frag_off & __constant_htons(0x3fff) ||
	    (ip->protocol != PROTOCOL_UDP && ip->protocol != PROTOCOL_TCP))
		return 0;
	flow->addresses = *(const work_wire64 *)&ip->saddr;
	flow->ports = *(const work_wire32 *)udp | (__u64)ip->protocol << 32;
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

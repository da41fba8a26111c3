/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_WORK_PACKET_H
#define XDPREPRO_WORK_PACKET_H

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include "work.h"

/* <linux/in.h> and <netinet/in.h> do not go together. */
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17

/* A packet is not aligned to more than 2 bytes, which no machine minds that this runs on. */
typedef __u64 __attribute__((may_alias)) work_wire64;
typedef __u32 __attribute__((may_alias)) work_wire32;
typedef __u16 __attribute__((may_alias)) work_wire16;

/* The types of Ethernet and IP headers are read as numbers: struct ethhdr is packed, and clang
 * would read it byte by byte. The frame holds both headers. */
static __always_inline _Bool work_is_plain_ip(const void *frame)
{
	return ((const __be16 *)frame)[ETH_ALEN] == __constant_htons(ETH_P_IP) &&
	       ((const __u8 *)frame)[ETH_HLEN] == 0x45; /* version 4, no options */
}

#endif

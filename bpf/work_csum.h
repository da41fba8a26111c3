/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_WORK_CSUM_H
#define XDPREPRO_WORK_CSUM_H

/* CPU: the checksum of a datagram is computed, again and again. */

#include "work_packet.h"

#define WORK_CSUM_WORDS 15 /* 30 bytes: a verifier's limit once, and that of the published sweeps \
			    */
#define WORK_ITERATIONS_MAX 50

/* The words of a datagram up to the end of the frame or the limit; a last odd byte is left out. */
static __always_inline __u32 work_sum(const __u16 *word, const void *end)
{
	__u32 sum = 0;

	for (int i = 0; i < WORK_CSUM_WORDS; i++, word++) {
		if ((const void *)(word + 1) > end)
			break;
		sum += *word;
	}
	return sum;
}

static __always_inline __u16 work_fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return sum + (sum >> 16);
}

/* False: no datagram, nothing was done. Each time is computed anew, whatever a compiler knows. */
static __always_inline _Bool work_checksum(void *data, const void *end, __u32 iterations)
{
	const struct iphdr *ip = data + ETH_HLEN;
	struct udphdr *udp = (void *)(ip + 1);
	const __u16 *address = (const void *)&ip->saddr;
	__u32 pseudo;

	if ((const void *)(udp + 1) > end || !work_is_plain_ip(data) || ip->protocol != PROTOCOL_UDP)
		return 0;
	pseudo = address[0] + address[1] + address[2] + address[3] + udp->len +
		 __constant_htons(PROTOCOL_UDP);
	for (__u64 i = 0; i < iterations; i++) {
		__u16 check;

		udp->check = 0;
		__asm__ volatile("" ::: "memory");
		check = ~work_fold(pseudo + work_sum((const __u16 *)udp, end));
		udp->check = check ? check : 0xffff;
	}
	return 1;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_WORK_CSUM_H
#define XDPREPRO_WORK_CSUM_H

/* CPU: the checksum of a datagram is computed, again and again. */

#include "work_packet.h"

#define WORK_ITERATIONS_MAX 50
#define WORK_CSUM_SHORTEST 26 /* bytes of a datagram in the shortest frame there is */

/* Of a sum of less than 37 bits; one of 16-bit words may be taken of 32-bit words as well. */
static __always_inline __u16 work_fold(__u64 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum + (sum >> 16);
}

/* Of the first 30 bytes of a datagram, which end before that in short frames; an odd one is left
 * out. */
static __always_inline __u64 work_sum(const void *datagram, const void *end)
{
	const work_wire32 *word = datagram;
	const work_wire16 *half = datagram;
	__u64 sum = (__u64)word[0] + word[1] + word[2] + word[3] + word[4] + word[5] + half[12];

	if ((const void *)(half + 14) > end)
		return sum;
	sum += half[13];
	return (const void *)(half + 15) > end ? sum : sum + half[14];
}

/* False: no datagram, nothing was done. Each time is computed anew, whatever a compiler knows. */
static __always_inline _Bool work_checksum(void *data, const void *end, __u32 iterations)
{
	const struct iphdr *ip = data + ETH_HLEN;
	struct udphdr *udp = (void *)(ip + 1);
	__u64 pseudo;

	if ((const void *)udp + WORK_CSUM_SHORTEST > end || !work_is_plain_ip(data) ||
	    ip->protocol != PROTOCOL_UDP)
		return 0;
	pseudo = (__u64)ip->saddr + ip->daddr + udp->len + __constant_htons(PROTOCOL_UDP);
	for (__u64 i = 0; i < iterations; i++) {
		__u16 check;

		udp->check = 0;
		__asm__ volatile("" ::: "memory");
		check = ~work_fold(pseudo + work_sum(udp, end));
		udp->check = check ? check : 0xffff;
	}
	return 1;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_PROGRAM_H
#define XDPREPRO_PROGRAM_H

/* What every program includes: types, helpers, licence, adding to a record, and swapping addresses.
 */

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

#include "record.h"

char _license[] SEC("license") = "GPL";

/* In one load: of a packed member clang makes two. */
static __always_inline __be16 read_proto(const struct ethhdr *eth)
{
	return *(const __be16 *)((const void *)eth + 2 * ETH_ALEN);
}

/* Four bytes and two of each: the fewest loads and stores. */
static __always_inline void swap_macs(struct ethhdr *eth)
{
	__u32 *dst = (void *)eth->h_dest, *src = (void *)eth->h_source;
	__u16 *dst_end = (void *)(dst + 1), *src_end = (void *)(src + 1);
	__u32 start = *dst;
	__u16 end = *dst_end;

	*dst = *src;
	*dst_end = *src_end;
	*src = start;
	*src_end = end;
}

static __always_inline int count_in(struct record *record, int action)
{
	record->packets[action & (RECORD_SLOTS - 1)]++;
	return action;
}

#endif

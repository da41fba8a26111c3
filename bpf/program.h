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

static __always_inline void swap_macs(struct ethhdr *eth)
{
	__u16 *p = (__u16 *)eth;
	__u16 dst[3] = {p[0], p[1], p[2]};

	p[0] = p[3];
	p[1] = p[4];
	p[2] = p[5];
	p[3] = dst[0];
	p[4] = dst[1];
	p[5] = dst[2];
}

static __always_inline int count_in(struct record *record, int action)
{
	record->packets[action & (RECORD_SLOTS - 1)]++;
	return action;
}

#endif

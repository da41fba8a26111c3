// SPDX-License-Identifier: GPL-2.0-or-later
#include "tc.h"

const volatile struct redirect_knobs knobs;

SEC("tc")
int tc_redirect_swap_macs(struct __sk_buff *skb)
{
	void *data_end = (void *)(long)skb->data_end;
	struct ethhdr *eth = (void *)(long)skb->data;

	if ((void *)(eth + 1) > data_end)
		return count(skb, TC_ACT_SHOT);
	swap_macs(eth);
	count(skb, TC_ACT_REDIRECT);
	/* The helper only notes the index; a port that is gone shows in the driver's counters. */
	return bpf_redirect(knobs.egress_ifindex, 0);
}

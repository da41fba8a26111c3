// SPDX-License-Identifier: GPL-2.0-or-later
#include "count.h"
#include "touch.h"

const volatile struct redirect_knobs knobs;

/* The helper only notes the index; a port that is gone shows in the driver's counters. */
static __always_inline int redirect(struct xdp_md *ctx)
{
	count_slot(ctx, XDP_REDIRECT);
	return bpf_redirect(knobs.egress_ifindex, 0);
}

NO_TOUCH(xdp_redirect, redirect(ctx))
SWAP_MACS(xdp_redirect, redirect(ctx))

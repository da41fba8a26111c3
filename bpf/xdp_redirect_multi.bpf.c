// SPDX-License-Identifier: GPL-2.0-or-later
#include "count.h"
#include "ports.h"
#include "touch.h"

/* Counted once, and sent as often as the map has slots. */
static __always_inline int redirect(struct xdp_md *ctx)
{
	return count_redirect(ctx, bpf_redirect_map(&ports, 0, BPF_F_BROADCAST), XDP_ABORTED);
}

SWAP_MACS(xdp_redirect_multi, redirect(ctx))

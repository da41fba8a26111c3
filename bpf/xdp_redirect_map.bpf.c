// SPDX-License-Identifier: GPL-2.0-or-later
#include "count.h"
#include "ports.h"
#include "touch.h"

/* A port that is gone leaves its slot empty, which gives XDP_ABORTED. */
static __always_inline int redirect(struct xdp_md *ctx)
{
	return count_redirect(ctx, bpf_redirect_map(&ports, 0, XDP_ABORTED), XDP_ABORTED);
}

NO_TOUCH(xdp_redirect_map, redirect(ctx))
SWAP_MACS(xdp_redirect_map, redirect(ctx))

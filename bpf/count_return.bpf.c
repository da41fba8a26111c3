// SPDX-License-Identifier: GPL-2.0-or-later
#include "count.h"

/* The tester's port: counts what comes back and drops it. */
SEC("xdp")
int count_return(struct xdp_md *ctx)
{
	return count(ctx, XDP_DROP);
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "count.h"

SEC("xdp")
int xdp_pass_no_touch(struct xdp_md *ctx)
{
	return count(ctx, XDP_PASS);
}

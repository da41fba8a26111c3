// SPDX-License-Identifier: GPL-2.0-or-later
#include "program.h"

/* The limit that xdp_drop_no_touch is compared with. */
SEC("xdp")
int bare_drop(struct xdp_md *ctx)
{
	return XDP_DROP;
}

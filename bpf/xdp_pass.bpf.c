// SPDX-License-Identifier: GPL-2.0-or-later
#include "count.h"
#include "touch.h"

EVERY_TOUCH(xdp_pass, count(ctx, XDP_PASS))

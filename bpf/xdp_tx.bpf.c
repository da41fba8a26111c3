// SPDX-License-Identifier: GPL-2.0-or-later
#include "count.h"
#include "touch.h"

EVERY_TOUCH(xdp_tx, count(ctx, XDP_TX))

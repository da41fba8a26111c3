// SPDX-License-Identifier: GPL-2.0-or-later
#include "count.h"
#include "touch.h"

NO_TOUCH(xdp_abort, count(ctx, XDP_ABORTED))

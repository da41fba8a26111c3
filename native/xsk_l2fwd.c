// SPDX-License-Identifier: GPL-2.0-or-later
/* Send frames back from the queue that they came on. */
#include "xsk_loop.h"

XSK_LOOP(l2fwd_swap_macs, xsk_serve_l2fwd, true, xsk_swap_macs);

XSK_APP(xsk_l2fwd_swap_macs, l2fwd_swap_macs);

// SPDX-License-Identifier: GPL-2.0-or-later
/* Take frames and give them straight back. */
#include "xsk_loop.h"

XSK_LOOP(rxdrop, xsk_serve_rxdrop, false, xsk_no_touch);
XSK_LOOP(rxdrop_swap_macs, xsk_serve_rxdrop, false, xsk_swap_macs);

XSK_APP(xsk_rxdrop, rxdrop);
XSK_APP(xsk_rxdrop_swap_macs, rxdrop_swap_macs);

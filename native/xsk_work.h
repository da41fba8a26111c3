/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_XSK_WORK_H
#define XDPREPRO_XSK_WORK_H

#include "app.h"

extern const struct app_ops xsk_rxdrop_mem, xsk_rxdrop_csum, xsk_rxdrop_fw;
extern const struct app_ops xsk_l2fwd_mem, xsk_l2fwd_csum, xsk_l2fwd_lb, xsk_l2fwd_lbfw;

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_RXDROP_H
#define XDPREPRO_RXDROP_H

#include "app.h"

/* One thread that takes frames from all sockets and gives them straight back. */
extern const struct app_ops rxdrop_ops;

#endif

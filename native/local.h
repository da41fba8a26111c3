/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_LOCAL_H
#define XDPREPRO_LOCAL_H

#include "app.h"

/* No application at all: the port takes frames for others, and the stack drops them. */
extern const struct app_ops stack_local;

/* AF_XDP sockets, whose packets go to the stack through a pair of interfaces. */
extern const struct app_ops xsk_local_swap_macs;

#endif

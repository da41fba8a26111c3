/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_UDP_APP_H
#define XDPREPRO_UDP_APP_H

extern const struct app_ops udp_ops;

#endif

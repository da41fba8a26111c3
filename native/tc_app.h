/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_TC_APP_H
#define XDPREPRO_TC_APP_H

/* A program at TC ingress; nothing of it runs in user space. */
extern const struct app_ops tc_ops;

#endif

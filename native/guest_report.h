/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_GUEST_REPORT_H
#define XDPREPRO_GUEST_REPORT_H

#include <jansson.h>

/* The `guest` line: which kernel this is, on what. Steals `absent`. */
int guest_report_kernel(json_t *absent);

/* The kernel's configuration, where it carries one. */
int guest_report_config(void);

#endif

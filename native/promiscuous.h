/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_PROMISCUOUS_H
#define XDPREPRO_PROMISCUOUS_H

#include "link.h"

/*
 * Have a port take frames for others, for as long as the descriptor is open: this ends with the
 * process, however it ends. Negative after fail().
 */
int promiscuous_open(const struct link *link);

#endif

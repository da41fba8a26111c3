/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_GUEST_PORT_H
#define XDPREPRO_GUEST_PORT_H

#include "guest_job.h"

/* Make a namespace for each side, without IPv6, whose packets nobody asked for. */
int guest_netns_create(void);

/* Go there; namespaces stay until the guest ends. */
int guest_netns_enter(enum side side);

/* Put the two ports into the namespaces, and bring them up. */
int guest_ports_create(const struct guest_job *job);

/* Wait until both have carrier: drivers lose it when a program is attached or goes. */
int guest_ports_wait(const struct guest_job *job);

#endif

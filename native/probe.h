/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_PROBE_H
#define XDPREPRO_PROBE_H

#include <jansson.h>

#include "link.h"

/* Print what this kernel and port can do, found by trying. */
int probe_run(const char *ifname);

/* Add what the port says about itself; what it does not say goes to `absent` with the reason. */
void probe_port(const struct link *link, json_t *object, json_t *absent);

/* Try everything and undo it: one object with a result for each capability. */
json_t *probe_can(const struct link *link);

/* Limits and features of the machine. */
json_t *probe_system(void);

/* What is attached to the port; its mode is null where nothing is. */
json_t *probe_xdp(const struct link *link);

#endif

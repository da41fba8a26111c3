/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_PORT_COUNTERS_H
#define XDPREPRO_PORT_COUNTERS_H

#include "counters.h"
#include "link.h"

/* Sources of a port beside netdev and ethtool, read at edges; the context of each is its link. */
int netdev_queues_read(const void *link, struct counters *counters);
int page_pool_read(const void *link, struct counters *counters);
int page_pool_stats_read(const void *link, struct counters *counters);
int settings_read(const void *link, struct counters *counters);

/* The numbers of the interrupts of a port's device; none where it has no device of its own. */
json_t *port_irqs(const struct link *link);

#endif

// SPDX-License-Identifier: GPL-2.0-or-later
#include "counters.h"
#include "error.h"
#include "link.h"

/* The members of struct rtnl_link_stats64, in order. */
static const char *const names[] = {
	"rx_packets",
	"tx_packets",
	"rx_bytes",
	"tx_bytes",
	"rx_errors",
	"tx_errors",
	"rx_dropped",
	"tx_dropped",
	"multicast",
	"collisions",
	"rx_length_errors",
	"rx_over_errors",
	"rx_crc_errors",
	"rx_frame_errors",
	"rx_fifo_errors",
	"rx_missed_errors",
	"tx_aborted_errors",
	"tx_carrier_errors",
	"tx_fifo_errors",
	"tx_heartbeat_errors",
	"tx_window_errors",
	"rx_compressed",
	"tx_compressed",
	"rx_nohandler",
	"rx_otherhost_dropped",
};

int netdev_take(void *context)
{
	struct link *link = context;
	struct link now;
	int result = link_read(link->ifname, &now);

	if (!result && !now.stats_len)
		result = fail_because(0, link->ifname, "RTM_GETLINK", "no IFLA_STATS64");
	if (!result)
		*link = now;
	return result;
}

int netdev_read(const void *context, struct counters *counters)
{
	const struct link *link = context;
	int result = 0;

	for (unsigned int i = 0; !result && i < link->stats_len; i++)
		if (i < sizeof(names) / sizeof(names[0]))
			result = counters_set(counters, link->stats[i], "%s", names[i]);
	return result;
}

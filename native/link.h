/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_LINK_H
#define XDPREPRO_LINK_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include <linux/if_link.h>

#define LINK_STATS_MAX (sizeof(struct rtnl_link_stats64) / sizeof(uint64_t))

/* A network interface as rtnetlink describes it. */
struct link {
	char ifname[IF_NAMESIZE];
	int ifindex;
	uint32_t mtu;
	uint32_t rx_queues; /* allocated; a driver may use fewer */
	uint32_t tx_queues;
	uint8_t mac[6];
	bool carrier;
	uint32_t promiscuity; /* how many want it to take frames for others */
	uint64_t stats[LINK_STATS_MAX];
	unsigned int stats_len; /* as many as this kernel has */
};

int link_read(const char *ifname, struct link *link);

#endif

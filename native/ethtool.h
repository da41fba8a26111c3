/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_ETHTOOL_H
#define XDPREPRO_ETHTOOL_H

#include <linux/ethtool.h>

/* One SIOCETHTOOL request; 0 or -errno, without fail(). */
int ethtool_ioctl(const char *ifname, void *request);

/*
 * The names of a set (ETH_SS_STATS and the like), for the caller to free; `len` of ETH_GSTRING_LEN
 * bytes each, not always terminated. NULL with errno set, EAGAIN
 * where their number changed meanwhile.
 */
struct ethtool_gstrings *ethtool_strings(const char *ifname, __u32 set);

#endif

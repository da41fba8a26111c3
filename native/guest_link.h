/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_GUEST_LINK_H
#define XDPREPRO_GUEST_LINK_H

#include "guest_job.h"

/* Make a veth pair: the DUT's end in the namespace that we are in, the other one in peer_netns. */
int guest_link_add_veth(const struct guest_job *job, int peer_netns);

/* Move a port to a namespace, and give it a name there. */
int guest_link_move(int ifindex, const char *ifname, int netns);

/* Set the MTU of a port and bring it up. */
int guest_link_up(int ifindex, const char *ifname, int mtu);

#endif

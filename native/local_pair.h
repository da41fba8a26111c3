/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_LOCAL_PAIR_H
#define XDPREPRO_LOCAL_PAIR_H

#include "link.h"

/*
 * A veth pair into our own stack. The end to send from is in a namespace that only this process
 * has: when the process ends, however it does, both ends are gone.
 */
struct local_pair {
	struct link stack; /* the end in our namespace */
	char inner_ifname[IF_NAMESIZE];
	int inner_ns; /* -1: there is no pair */
	int outer_ns;
};

#define LOCAL_PAIR_NONE {.inner_ns = -1, .outer_ns = -1}

int local_pair_create(struct local_pair *pair, int queues, int mtu);
void local_pair_destroy(struct local_pair *pair);

/* Where sockets of this thread are made from now on: at the end to send from, or where we were. */
int local_pair_enter(const struct local_pair *pair);
int local_pair_leave(const struct local_pair *pair);

#endif

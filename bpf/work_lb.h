/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_WORK_LB_H
#define XDPREPRO_WORK_LB_H

/*
 * Load balancing: a packet of a session goes on to the session's backend. The first packet of a
 * session finds the service that it is for, and a hash of its flow chooses among the backends.
 */

#include "work_flow.h"

#define WORK_SERVICES 8
#define WORK_BACKENDS_MAX 128 /* of a service */

/* The checksums change by a constant, as the address and port of the service are known. */
struct backend {
	__be32 addr;
	__be16 port;
	__u16 ip_change;  /* the new address - the old one */
	__u16 udp_change; /* the same, and the port */
	__u16 zero;
};

/* The key of the service that a flow is for. */
static __always_inline struct flow work_service(const struct flow *flow)
{
	struct flow service = {
		.addresses = flow->addresses >> 32 << 32,
		.ports = flow->ports >> 16 << 16,
	};

	return service;
}

/* Which backend, of all, the first packet of a session chooses; `first` is its service's first. */
static __always_inline __u32 work_choose(const struct flow *flow, __u32 first, __u32 backends)
{
	return first + (((work_hash(flow) >> 32) * backends) >> 32);
}

static __always_inline __u16 work_adjust(__u16 check, __u16 change)
{
	__u32 sum = (__u16)~check + change;

	return ~(sum + (sum >> 16));
}

/* A packet of which work_find_flow() knew the flow, of UDP; 0 is a datagram without a checksum. */
static __always_inline void work_rewrite(void *data, const struct backend *backend)
{
	struct iphdr *ip = data + ETH_HLEN;
	struct udphdr *udp = (void *)(ip + 1);

	ip->daddr = backend->addr;
	ip->check = work_adjust(ip->check, backend->ip_change);
	udp->dest = backend->port;
	if (!udp->check)
		return;
	udp->check = work_adjust(udp->check, backend->udp_change);
	if (!udp->check)
		udp->check = 0xffff;
}

#endif

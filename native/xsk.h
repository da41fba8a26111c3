/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_XSK_H
#define XDPREPRO_XSK_H

#include <jansson.h>
#include <stdint.h>

#include <xdp/xsk.h>

#include "counters.h"
#include "spec.h"

/* An AF_XDP socket on one queue, with a UMEM of its own. */
struct xsk {
	char name[64]; /* "dut0 queue 0", for messages */
	int queue_id;
	int frame_size;
	uint32_t frames; /* in circulation: as many as the UMEM has and the fill ring holds */
	void *area;
	size_t area_size;
	struct xsk_umem *umem;
	struct xsk_socket *socket;
	struct xsk_ring_prod fill;
	struct xsk_ring_cons completion;
	struct xsk_ring_cons rx;
	unsigned int bind_retries;
};

/*
 * Bind, with the fill ring full. A queue that is busy is tried again for a while: the kernel gives
 * a queue back some time after the last socket on it was closed.
 */
int xsk_create(struct xsk *xsk, const char *ifname, int queue_id, const struct xsk_spec *spec);
void xsk_destroy(struct xsk *xsk);

/* The mode from XDP_OPTIONS, as the protocol's `xsk` object; another than asked for is a failure.
 */
int xsk_verify(const struct xsk *xsk, const struct xsk_spec *spec, json_t **object);

/* XDP_STATISTICS of one socket, as many as this kernel has. */
int xsk_read_statistics(const struct xsk *xsk, struct counters *counters);

#endif

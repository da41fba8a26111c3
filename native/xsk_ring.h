/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_XSK_RING_H
#define XDPREPRO_XSK_RING_H

#include <stddef.h>
#include <stdint.h>

#include <xdp/xsk.h>

/*
 * The rings of an AF_XDP socket, in the types of libxdp, whose functions for entries are used. The
 * rest of libxdp is not: it shares memory by the first socket of all, where the kernel wants that
 * of the same queue.
 */

enum xsk_ring_kind { XSK_RX, XSK_TX, XSK_FILL, XSK_COMPLETION };

struct xsk_mapping {
	void *area; /* NULL: none */
	size_t size;
};

/* Make a ring of a socket and map it; `name` is for messages. */
int xsk_ring_create_prod(struct xsk_ring_prod *ring, struct xsk_mapping *mapping, int fd,
			 enum xsk_ring_kind kind, int size, const char *name);
int xsk_ring_create_cons(struct xsk_ring_cons *ring, struct xsk_mapping *mapping, int fd,
			 enum xsk_ring_kind kind, int size, const char *name);
void xsk_ring_unmap(struct xsk_mapping *mapping);

#endif

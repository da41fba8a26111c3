/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_XSK_H
#define XDPREPRO_XSK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "counters.h"
#include "spec.h"
#include "xsk_ring.h"

/* Of kernel headers since 6.6. */
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

struct work_thread;

/* Memory for frames. */
struct umem {
	uint8_t *area;
	size_t area_size; /* registered; what is mapped may end later */
	size_t mapped_size;
	int fd; /* the socket that registered it; -1: none has */
};

/* What the sockets of one queue have in common. */
struct xsk_queue {
	struct xsk_ring_prod fill;
	struct xsk_ring_cons completion;
	struct xsk_mapping fill_mapping;
	struct xsk_mapping completion_mapping;
	struct umem *umem;
	int queue_id;
	int fd;                /* its first socket; -1: none is bound */
	uint32_t outstanding;  /* descriptors handed over to be sent, and not given back yet */
	uint64_t frames_start; /* where in the UMEM the queue's frames begin */
};

/* What the loop did on one socket; written by its thread only. */
struct xsk_counters {
	uint64_t rx_packets;
	uint64_t rx_bytes;
	uint64_t tx_packets;
	uint64_t tx_bytes;
	uint64_t completions; /* descriptors, of which a packet may have several */
	uint64_t dropped;     /* by the work that is done with a packet */
	uint64_t empty_polls;
	uint64_t wakeups; /* poll() or recvfrom() */
	uint64_t fill_fails;
	uint64_t tx_full;
	uint64_t tx_wakeups; /* sendto(), of which some failed: */
	uint64_t tx_eagain;
	uint64_t tx_ebusy;
	uint64_t tx_enobufs;
	uint64_t tx_enetdown;
} __attribute__((aligned(128)));

/* One socket, and what its thread needs to know of it. */
struct xsk {
	struct xsk_ring_cons rx;
	struct xsk_ring_prod tx;
	struct xsk_queue *queue;
	uint8_t *area;
	uint32_t batch;
	bool sends;     /* it has a TX ring */
	bool asks;      /* the rings say whether to wake the kernel; else it is always woken */
	bool continued; /* the next descriptor goes on with the packet before it, */
	bool kept;      /* which is kept */
	struct work_thread *work;       /* NULL: none */
	const struct frame_spec *frame; /* to transmit: */
	uint64_t fresh;                 /* the next frame that was never sent */
	uint64_t fresh_end;
	uint64_t left;   /* descriptors still to be handed over; UINT64_MAX: no end */
	uint32_t pieces; /* of a packet: descriptors, each of piece_len but the last */
	uint32_t piece;  /* the next one */
	uint32_t piece_len;
	uint32_t last_len;
	uint32_t flow; /* of the next packet */
	struct xsk_counters counters;
	struct xsk_mapping rx_mapping;
	struct xsk_mapping tx_mapping;
	int fd;
	int tx_fd; /* of the socket that the TX ring is of */
	unsigned int bind_retries;
	char name[64];   /* "dut0 queue 0", for messages */
	char prefix[16]; /* "q0", of counters */
};

/* Map memory for the frames of so many sockets. */
int umem_create(struct umem *umem, const struct xsk_spec *spec, const char *name, size_t sockets);
void umem_destroy(struct umem *umem);

/* Register it with a socket, which has to live as long as all others that have frames in it. */
int umem_register(struct umem *umem, const struct xsk_spec *spec, const char *name, int fd);

/*
 * Bind a socket. A queue that is busy is tried again for a while: the kernel gives a queue back
 * some time after the last socket on it was closed. `number`: which socket of its queue it is;
 * `sends`: it has a TX ring.
 */
int xsk_create(struct xsk *xsk, const char *ifname, struct xsk_queue *queue, size_t number,
	       bool sends, const struct xsk_spec *spec);
void xsk_destroy(struct xsk *xsk);

/* Bind a socket to queue 0 and give it back: whether the port can do it. */
int xsk_try(const char *ifname, const struct xsk_spec *spec);

/* Give the kernel frames to receive into, as many as the ring and the queue have. */
int xsk_fill(struct xsk_queue *queue, const char *name, uint64_t frames, int frame_size);

/* The mode from XDP_OPTIONS, as the protocol's `xsk` object; another than asked for is a failure.
 */
int xsk_verify(const struct xsk *xsk, const struct xsk_spec *spec, json_t **object);

/* XDP_STATISTICS of one socket, as many as this kernel has. */
int xsk_read_statistics(const struct xsk *xsk, struct counters *counters);

/* The indices of all four rings. */
int xsk_read_rings(const struct xsk *xsk, struct counters *counters);

/* Write so many frames from `start` of the UMEM, to be sent. */
void xsk_transmit_prepare(struct xsk *xsk, const struct frame_spec *frame, uint64_t start,
			  size_t frames, int frame_size);

/* Wake the kernel until it has taken what is in the TX ring, or cannot now. */
int xsk_kick(struct xsk *xsk);

static inline bool xsk_unsent(const struct xsk *xsk)
{
	return *xsk->tx.producer != __atomic_load_n(xsk->tx.consumer, __ATOMIC_ACQUIRE);
}

/* Add to a counter of our own thread that others read. */
static inline void xsk_add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

#endif

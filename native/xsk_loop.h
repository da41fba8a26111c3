/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_XSK_LOOP_H
#define XDPREPRO_XSK_LOOP_H

/*
 * The loops of AF_XDP applications, made anew for each thing that is done with a packet, so that
 * nothing is called by pointer for a packet. Each comes in two forms: `plain` is for frames that
 * are aligned and whole, `general` for all others; which of both is a constant, as is the touch.
 */

#include <linux/if_ether.h>
#include <string.h>

#include "window.h"
#include "xsk_app.h"

/* What is done with a packet, of which this is the first piece; false: it is dropped. */
typedef bool xsk_touch(struct xsk *xsk, uint8_t *frame, uint32_t len);

/* What came of a batch, kept in registers until its end. */
struct xsk_sums {
	uint64_t bytes;
	uint64_t dropped_bytes;
	uint32_t packets;
	uint32_t dropped;
	bool continued; /* the next descriptor goes on with the packet before it, */
	bool kept;      /* which is kept */
};

/* How many entries there are, up to a batch. */
static __always_inline uint32_t xsk_available(struct xsk_ring_cons *ring, uint32_t batch)
{
	uint32_t n = ring->cached_prod - ring->cached_cons;

	if (n < batch) {
		ring->cached_prod = __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE);
		n = ring->cached_prod - ring->cached_cons;
	}
	return n < batch ? n : batch;
}

static __always_inline uint32_t xsk_room(struct xsk_ring_prod *ring, uint32_t wanted)
{
	uint32_t n = xsk_prod_nb_free(ring, wanted);

	return n < wanted ? n : wanted;
}

static __always_inline void xsk_submit(struct xsk_ring_prod *ring, uint32_t n)
{
	ring->cached_prod += n;
	__atomic_store_n(ring->producer, ring->cached_prod, __ATOMIC_RELEASE);
}

static __always_inline void xsk_release(struct xsk_ring_cons *ring, uint32_t n)
{
	ring->cached_cons += n;
	__atomic_store_n(ring->consumer, ring->cached_cons, __ATOMIC_RELEASE);
}

/* How many of n entries come before the end of a ring. */
static __always_inline uint32_t xsk_run(uint32_t n, uint32_t index, uint32_t mask)
{
	uint32_t left = mask + 1 - (index & mask);

	return n < left ? n : left;
}

static __always_inline uint8_t *xsk_frame(uint8_t *area, uint64_t addr, bool general)
{
	return area + (general ? xsk_umem__add_offset_to_addr(addr) : addr);
}

/* Look at what came; false: it is dropped. */
static __always_inline bool xsk_receive(struct xsk *xsk, uint8_t *area, const struct xdp_desc *desc,
					struct xsk_sums *sums, bool general, xsk_touch *touch)
{
	bool kept;

	sums->bytes += desc->len;
	if (general && sums->continued) {
		kept = sums->kept;
	} else {
		kept = touch(xsk, xsk_frame(area, desc->addr, general), desc->len);
		sums->dropped += !kept;
		sums->packets++;
	}
	sums->dropped_bytes += kept ? 0 : desc->len;
	if (general) {
		sums->continued = desc->options & XDP_PKT_CONTD;
		sums->kept = kept;
	}
	return kept;
}

/* A batch may begin and end within a packet. */
static __always_inline struct xsk_sums xsk_start_sums(const struct xsk *xsk)
{
	return (struct xsk_sums){.continued = xsk->continued, .kept = xsk->kept};
}

static __always_inline void xsk_count_received(struct xsk *xsk, const struct xsk_sums *sums)
{
	xsk->continued = sums->continued;
	xsk->kept = sums->kept;
	xsk_add(&xsk->counters.rx_packets, sums->packets);
	xsk_add(&xsk->counters.rx_bytes, sums->bytes);
	if (sums->dropped)
		xsk_add(&xsk->counters.dropped, sums->dropped);
}

/* Take up to a batch of frames and give them back; how many they were. */
static __always_inline uint32_t xsk_serve_rxdrop(struct xsk *xsk, bool general, xsk_touch *touch)
{
	struct xsk_ring_prod *fill = &xsk->queue->fill;
	struct xsk_sums sums = xsk_start_sums(xsk);
	uint8_t *area = xsk->area;
	uint32_t n = xsk_available(&xsk->rx, xsk->batch);

	if (!n) {
		xsk_add(&xsk->counters.empty_polls, 1);
		return 0;
	}
	/* There is room for all frames, but the kernel may tell late which entries it took. */
	n = xsk_room(fill, n);
	if (!n) {
		xsk_add(&xsk->counters.fill_fails, 1);
		return 0;
	}
	for (uint32_t done = 0, run; done < n; done += run) {
		uint32_t from = xsk->rx.cached_cons + done, to = fill->cached_prod + done;
		const struct xdp_desc *desc = xsk_ring_cons__rx_desc(&xsk->rx, from);
		uint64_t *addr = (uint64_t *)xsk_ring_prod__fill_addr(fill, to);

		run = xsk_run(xsk_run(n - done, from, xsk->rx.mask), to, fill->mask);
#pragma GCC unroll 4
		for (uint32_t i = 0; i < run; i++) {
			/* Read once: for all that is known, a frame may be the ring. */
			const struct xdp_desc got = desc[i];

			xsk_receive(xsk, area, &got, &sums, general, touch);
			addr[i] = got.addr;
		}
	}
	xsk_submit(fill, n);
	xsk_release(&xsk->rx, n);
	xsk_count_received(xsk, &sums);
	return n;
}

/* Frames that were sent can be received into again. */
static __always_inline void xsk_recycle(struct xsk *xsk)
{
	struct xsk_queue *queue = xsk->queue;
	struct xsk_ring_cons *completion = &queue->completion;
	uint32_t n = xsk_available(completion, xsk->batch);

	n = xsk_room(&queue->fill, n);
	for (uint32_t done = 0, run; done < n; done += run) {
		uint32_t from = completion->cached_cons + done;
		uint32_t to = queue->fill.cached_prod + done;

		run = xsk_run(xsk_run(n - done, from, completion->mask), to, queue->fill.mask);
		memcpy(xsk_ring_prod__fill_addr(&queue->fill, to),
		       xsk_ring_cons__comp_addr(completion, from), run * sizeof(uint64_t));
	}
	if (!n)
		return;
	xsk_submit(&queue->fill, n);
	xsk_release(completion, n);
	queue->outstanding -= n;
	xsk_add(&xsk->counters.completions, n);
}

/* What is kept goes to the TX ring, the rest to the fill ring; how many are kept. */
static __always_inline uint32_t xsk_turn_round(struct xsk *xsk, uint32_t n, struct xsk_sums *sums,
					       bool general, xsk_touch *touch)
{
	struct xsk_ring_prod *fill = &xsk->queue->fill;
	uint8_t *area = xsk->area;
	uint32_t kept = 0, dropped = 0;

	for (uint32_t done = 0, run; done < n; done += run) {
		uint32_t from = xsk->rx.cached_cons + done, to = xsk->tx.cached_prod + kept;
		const struct xdp_desc *desc = xsk_ring_cons__rx_desc(&xsk->rx, from);
		struct xdp_desc *out = xsk_ring_prod__tx_desc(&xsk->tx, to), *first = out;

		run = xsk_run(xsk_run(n - done, from, xsk->rx.mask), to, xsk->tx.mask);
#pragma GCC unroll 4
		for (uint32_t i = 0; i < run; i++) {
			const struct xdp_desc got = desc[i];

			*out = desc[i]; /* one store of all of it; dropped, it is written over */
			if (xsk_receive(xsk, area, &got, sums, general, touch))
				out++;
			else
				*xsk_ring_prod__fill_addr(fill, fill->cached_prod + dropped++) =
					got.addr;
		}
		kept += out - first;
	}
	xsk_submit(&xsk->tx, kept);
	if (dropped)
		xsk_submit(fill, dropped);
	return kept;
}

/* Send back up to a batch of frames; how many came. */
static __always_inline uint32_t xsk_serve_l2fwd(struct xsk *xsk, bool general, xsk_touch *touch)
{
	struct xsk_sums sums = xsk_start_sums(xsk);
	uint32_t n, room, kept;

	if (xsk->queue->outstanding)
		xsk_recycle(xsk);
	n = xsk_available(&xsk->rx, xsk->batch);
	if (!n) {
		xsk_add(&xsk->counters.empty_polls, 1);
		return 0;
	}
	room = xsk_room(&xsk->tx, n);
	if (room < n)
		xsk_add(&xsk->counters.tx_full, 1);
	if (!room)
		return 0;
	kept = xsk_turn_round(xsk, room, &sums, general, touch);
	xsk_release(&xsk->rx, room);
	xsk->queue->outstanding += kept;
	xsk_count_received(xsk, &sums);
	xsk_add(&xsk->counters.tx_packets, sums.packets - sums.dropped);
	xsk_add(&xsk->counters.tx_bytes, sums.bytes - sums.dropped_bytes);
	return room;
}

/* Serve a thread's sockets until it is told to stop. */
static __always_inline int xsk_loop(struct xsk_thread *thread, bool sends,
				    uint32_t (*serve)(struct xsk *xsk))
{
	int result = 0;

	while (!result && !xsk_stopping(thread)) {
		uint32_t n = 0, got;

		window_app();
		for (size_t i = 0; i < thread->len && !result; i++) {
			struct xsk *xsk = thread->sockets[i];

			got = serve(xsk);
			n += got;
			if (sends && xsk->queue->outstanding && xsk_unsent(xsk))
				result = xsk_kick(xsk);
			if (!got)
				xsk_idle(xsk, thread->app->spec->wakeup);
		}
		if (!n)
			xsk_sleep(thread);
	}
	return result;
}

/* Both forms of a loop, as `const struct xsk_loop NAME`. */
#define XSK_LOOP(NAME, SERVE, SENDS, TOUCH)                                                \
	static __always_inline uint32_t NAME##_serve_plain(struct xsk *xsk)                \
	{                                                                                  \
		return SERVE(xsk, false, TOUCH);                                           \
	}                                                                                  \
	static __always_inline uint32_t NAME##_serve_general(struct xsk *xsk)              \
	{                                                                                  \
		return SERVE(xsk, true, TOUCH);                                            \
	}                                                                                  \
	static int NAME##_plain(struct xsk_thread *thread)                                 \
	{                                                                                  \
		return xsk_loop(thread, SENDS, NAME##_serve_plain);                        \
	}                                                                                  \
	static int NAME##_general(struct xsk_thread *thread)                               \
	{                                                                                  \
		return xsk_loop(thread, SENDS, NAME##_serve_general);                      \
	}                                                                                  \
	static const struct xsk_loop NAME = {NAME##_plain, NAME##_general, .sends = SENDS, \
					     .transmits = false}

static __always_inline bool xsk_no_touch(struct xsk *xsk, uint8_t *frame, uint32_t len)
{
	(void)xsk;
	(void)frame;
	(void)len;
	return true;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the first byte of a frame is the lowest");

/*
 * Two stores, which are what the loops wait for: what the first spoils behind the destination
 * address was read before, and the second writes the type once more.
 */
static __always_inline bool xsk_swap_macs(struct xsk *xsk, uint8_t *frame, uint32_t len)
{
	const uint64_t address = (1ULL << (8 * ETH_ALEN)) - 1;
	uint64_t destination, source;

	(void)xsk;
	(void)len;
	memcpy(&destination, frame, sizeof(destination));
	memcpy(&source, frame + ETH_ALEN, sizeof(source));
	memcpy(frame, &source, sizeof(source));
	destination = (destination & address) | (source & ~address);
	memcpy(frame + ETH_ALEN, &destination, sizeof(destination));
	return true;
}

#endif

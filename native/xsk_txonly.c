// SPDX-License-Identifier: GPL-2.0-or-later
/* Send frames: those that come back as sent are sent again, so that all are always on their way. */
#include "xsk_loop.h"

#include <arpa/inet.h>
#include <errno.h>

#include "clock.h"
#include "frame.h"

#define DRAIN_BUDGET_NS (2 * NS_PER_S)

/* What is written into frames, kept in registers for a batch. */
struct writer {
	uint8_t *area;
	uint32_t flow; /* of the next packet */
	uint32_t flows;
};

static __always_inline struct writer start_writing(const struct xsk *xsk)
{
	return (struct writer){xsk->area, xsk->flow, xsk->frame->flows};
}

/* A flow is known by its source port. */
static __always_inline void write_flow(struct writer *writer, uint64_t addr)
{
	uint16_t port = htons(FRAME_FIRST_PORT + writer->flow);

	memcpy(writer->area + addr + FRAME_SPORT_OFFSET, &port, sizeof(port));
	writer->flow = writer->flow + 1 == writer->flows ? 0 : writer->flow + 1;
}

/* The next piece of a packet. */
static __always_inline void put_piece(struct xsk *xsk, struct xdp_desc *desc, uint64_t addr,
				      struct writer *writer)
{
	bool last = xsk->piece + 1 == xsk->pieces;

	desc->addr = addr;
	desc->len = last ? xsk->last_len : xsk->piece_len;
	desc->options = last ? 0 : XDP_PKT_CONTD;
	if (!xsk->piece)
		write_flow(writer, addr);
	xsk->piece = last ? 0 : xsk->piece + 1;
}

/* A whole packet: all entries of the ring say the same but for the address. */
static __always_inline void put(struct xsk *xsk, struct xdp_desc *desc, uint64_t addr,
				struct writer *writer, bool general, bool flows)
{
	if (general) {
		put_piece(xsk, desc, addr, writer);
		return;
	}
	desc->addr = addr;
	if (flows)
		write_flow(writer, addr);
}

/* How many of n descriptors may be handed over. */
static __always_inline uint32_t limit(struct xsk *xsk, uint32_t n)
{
	return xsk_room(&xsk->tx, n < xsk->left ? n : xsk->left);
}

static __always_inline void hand_over(struct xsk *xsk, uint32_t n, uint32_t piece_before)
{
	uint32_t packets = xsk->pieces == 1 ? n : (piece_before + n) / xsk->pieces;

	xsk_submit(&xsk->tx, n);
	xsk->queue->outstanding += n;
	xsk->left -= xsk->left == UINT64_MAX ? 0 : n;
	xsk_add(&xsk->counters.tx_packets, packets);
	xsk_add(&xsk->counters.tx_bytes, (uint64_t)packets * xsk->frame->frame_len);
}

static __always_inline uint32_t send_fresh(struct xsk *xsk, bool general, bool flows)
{
	uint64_t fresh = (xsk->fresh_end - xsk->fresh) / xsk->piece_len;
	uint32_t n = limit(xsk, fresh < xsk->batch ? fresh : xsk->batch);
	uint32_t to = xsk->tx.cached_prod, piece = xsk->piece;
	struct writer writer = start_writing(xsk);

	for (uint32_t i = 0; i < n; i++, xsk->fresh += xsk->piece_len)
		put(xsk, xsk_ring_prod__tx_desc(&xsk->tx, to + i), xsk->fresh, &writer, general,
		    flows);
	xsk->flow = writer.flow;
	hand_over(xsk, n, piece);
	return n;
}

static __always_inline void send_again(struct xsk *xsk, uint32_t n, bool general, bool flows)
{
	struct xsk_ring_cons *completion = &xsk->queue->completion;
	struct writer writer = start_writing(xsk);
	uint32_t piece = xsk->piece;

	for (uint32_t done = 0, run; done < n; done += run) {
		uint32_t from = completion->cached_cons + done, to = xsk->tx.cached_prod + done;
		const uint64_t *addr = (const uint64_t *)xsk_ring_cons__comp_addr(completion, from);
		struct xdp_desc *desc = xsk_ring_prod__tx_desc(&xsk->tx, to);

		run = xsk_run(xsk_run(n - done, from, completion->mask), to, xsk->tx.mask);
#pragma GCC unroll 4
		for (uint32_t i = 0; i < run; i++)
			put(xsk, &desc[i], addr[i], &writer, general, flows);
	}
	xsk->flow = writer.flow;
	hand_over(xsk, n, piece);
}

/* Up to a batch; how many descriptors were given back or handed over. */
static __always_inline uint32_t serve(struct xsk *xsk, bool general, bool flows)
{
	struct xsk_ring_cons *completion = &xsk->queue->completion;
	uint32_t again, n = xsk_available(completion, xsk->batch);

	if (!n && xsk->fresh < xsk->fresh_end)
		n = send_fresh(xsk, general, flows);
	else if (n) {
		again = limit(xsk, n);
		if (again)
			send_again(xsk, again, general, flows);
		/* With nothing left to send, the frame has done its work. */
		n = xsk->left ? again : n;
		xsk_release(completion, n);
		xsk->queue->outstanding -= n;
		xsk_add(&xsk->counters.completions, n);
	}
	if (!n)
		xsk_add(&xsk->counters.empty_polls, 1);
	return n;
}

/* No packet is left in pieces. */
static void send_no_more(struct xsk_thread *thread)
{
	for (size_t i = 0; i < thread->len; i++) {
		struct xsk *xsk = thread->sockets[i];

		xsk->left = xsk->piece ? xsk->pieces - xsk->piece : 0;
	}
}

static int check_drain(const struct xsk_thread *thread, int64_t *deadline_ns)
{
	const struct xsk *xsk = thread->sockets[0];

	if (!*deadline_ns)
		*deadline_ns = now_ns() + DRAIN_BUDGET_NS;
	if (now_ns() < *deadline_ns)
		return 0;
	return fail_because(ETIMEDOUT, xsk->name, "send",
			    "the kernel did not give back %u frames within %lld s",
			    xsk->queue->outstanding, DRAIN_BUDGET_NS / NS_PER_S);
}

static __always_inline int transmit(struct xsk_thread *thread, bool general, bool flows)
{
	int64_t deadline_ns = 0;
	uint64_t left = 1, outstanding = 0;
	bool stopped = false;
	int result = 0;

	while (!result && (left || outstanding)) {
		uint32_t n = 0;

		if (!stopped && xsk_stopping(thread)) {
			send_no_more(thread);
			stopped = true;
		}
		left = outstanding = 0;
		for (size_t i = 0; i < thread->len && !result; i++) {
			struct xsk *xsk = thread->sockets[i];
			uint32_t got = serve(xsk, general, flows);

			n += got;
			left |= xsk->left;
			outstanding |= xsk->queue->outstanding;
			if (xsk_unsent(xsk))
				result = xsk_kick(xsk);
			if (!got)
				xsk_idle(xsk, thread->app->spec->wakeup);
		}
		if (!result && (stopped || !left) && (left || outstanding))
			result = check_drain(thread, &deadline_ns);
		if (!n && outstanding)
			xsk_sleep(thread);
	}
	return result;
}

static int plain(struct xsk_thread *thread)
{
	return thread->app->trial->generator.frame.flows > 1 ? transmit(thread, false, true)
							     : transmit(thread, false, false);
}

static int general(struct xsk_thread *thread)
{
	return transmit(thread, true, true);
}

void xsk_transmit_prepare(struct xsk *xsk, const struct frame_spec *frame, uint64_t start,
			  size_t frames, int frame_size)
{
	uint8_t *first = xsk->area + start;
	uint8_t whole[FRAME_LEN_MAX];
	int len = frame->frame_len < frame_size ? frame->frame_len : frame_size;

	frame_fill(frame, whole);
	for (size_t i = 0; i < frames; i++)
		memcpy(first + i * frame_size, whole, len);
	xsk->frame = frame;
	xsk->fresh = start;
	xsk->fresh_end = start + frames * frame_size;
	xsk->piece_len = frame_size;
	xsk->pieces = (frame->frame_len + frame_size - 1) / frame_size;
	xsk->last_len = frame->frame_len - (xsk->pieces - 1) * frame_size;
	for (uint32_t i = 0; i < xsk->tx.size; i++)
		*xsk_ring_prod__tx_desc(&xsk->tx, i) = (struct xdp_desc){.len = frame->frame_len};
}

static const struct xsk_loop txonly = {plain, general, .sends = true, .transmits = true};

static int create(const struct spec *spec, struct port *port, struct app **app)
{
	/* Sockets of a queue have one completion ring, so one would send the frames of all. */
	if (spec->xsk.sockets > 1)
		return fail_usage("spec", "xsk.sockets",
				  "%d is not 1, as in all cases of this kind", spec->xsk.sockets);
	return xsk_app_create(spec, port, &txonly, app);
}

const struct app_ops xsk_txonly = {
	.create = create,
	.start = xsk_app_start,
	.go = xsk_app_go,
	.ended_fd = xsk_app_ended_fd,
	.stop = xsk_app_stop,
	.describe = xsk_app_describe,
	.add_sources = xsk_app_add_sources,
	.destroy = xsk_app_destroy,
};

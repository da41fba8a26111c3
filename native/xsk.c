// SPDX-License-Identifier: GPL-2.0-or-later
#include "xsk.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "link.h"
#include "port.h"

#define BIND_BUDGET_NS (2 * NS_PER_S)
#define BIND_BACKOFF_MAX_NS (64 * NS_PER_MS)

#ifndef ENOTSUPP
#define ENOTSUPP 524 /* the kernel's own, which some drivers let out */
#endif

static bool lacks_queue(const char *ifname, int queue_id, unsigned int *queues)
{
	struct link link;

	if (link_read(ifname, &link))
		return false;
	*queues = port_rx_queues(&link);
	return (unsigned int)queue_id >= *queues;
}

static int hint_invalid(int result, const char *ifname, int queue_id, const struct xsk_spec *spec)
{
	const struct failure invalid = failure;
	unsigned int queues = 0;
	bool lacks = lacks_queue(ifname, queue_id, &queues);

	failure = invalid;
	if (lacks)
		return fail_hint(result,
				 "%s has %u queues, counted from 0: set queues, or see "
				 "'ethtool -l %s'",
				 ifname, queues, ifname);
	if (spec->frags)
		return fail_hint(result, "frags need a kernel of 6.6 or newer, and a driver that "
					 "has them in this bind_mode");
	if (spec->unaligned)
		return fail_hint(result, "unaligned frames need physically contiguous pages in "
					 "zero-copy mode: set huge_pages");
	return fail_hint(result, "the port cannot have this UMEM: set frame_size 4096, or "
				 "bind_mode copy");
}

static int hint_bind(int result, const char *ifname, int queue_id, const struct xsk_spec *spec)
{
	switch (-result) {
	case EBUSY:
		return fail_hint(result, "another AF_XDP socket is bound to this queue");
	case EOPNOTSUPP:
	case ENOTSUPP:
		return fail_hint(result,
				 "the driver of %s has no zero-copy here: set bind_mode "
				 "copy",
				 ifname);
	case EINVAL:
		return hint_invalid(result, ifname, queue_id, spec);
	case EPERM:
		return fail_hint(result, "run as root, or with CAP_NET_RAW");
	default:
		return result;
	}
}

static int fail_bind(int err, const char *name)
{
	if (err == ENOTSUPP)
		return fail_because(err, name, "bind", "the driver does not support it");
	return fail(err, name, "bind");
}

/* The rings of a queue belong to its first socket. */
static int create_rings(struct xsk *xsk, const struct xsk_spec *spec)
{
	struct xsk_queue *queue = xsk->queue;
	int result = xsk_ring_create_cons(&xsk->rx, &xsk->rx_mapping, xsk->fd, XSK_RX,
					  spec->ring_rx, xsk->name);

	if (!result && xsk->sends)
		result = xsk_ring_create_prod(&xsk->tx, &xsk->tx_mapping, xsk->fd, XSK_TX,
					      spec->ring_tx, xsk->name);
	if (!result && queue->fd < 0)
		result = xsk_ring_create_prod(&queue->fill, &queue->fill_mapping, xsk->fd, XSK_FILL,
					      spec->ring_fill, xsk->name);
	if (!result && queue->fd < 0)
		result = xsk_ring_create_cons(&queue->completion, &queue->completion_mapping,
					      xsk->fd, XSK_COMPLETION, spec->ring_completion,
					      xsk->name);
	return result;
}

static __u16 make_flags(const struct xsk *xsk, const struct xsk_spec *spec)
{
	__u16 flags = spec->bind_mode == BIND_ZERO_COPY ? XDP_ZEROCOPY : XDP_COPY;

	if (xsk->asks)
		flags |= XDP_USE_NEED_WAKEUP;
	return spec->frags ? flags | XDP_USE_SG : flags;
}

/* A socket that shares memory takes the flags of the one that it shares it with. */
static int bind_socket(struct xsk *xsk, int ifindex, const struct xsk_spec *spec)
{
	const struct xsk_queue *queue = xsk->queue;
	bool shares = queue->umem->fd != xsk->fd;
	const struct sockaddr_xdp address = {
		.sxdp_family = AF_XDP,
		.sxdp_flags = shares ? XDP_SHARED_UMEM : make_flags(xsk, spec),
		.sxdp_ifindex = ifindex,
		.sxdp_queue_id = queue->queue_id,
		.sxdp_shared_umem_fd = queue->fd >= 0 ? queue->fd : queue->umem->fd,
	};

	if (bind(xsk->fd, (const struct sockaddr *)&address, sizeof(address)))
		return fail_bind(errno, xsk->name);
	return 0;
}

/* What was made for a socket that could not be bound is half set up: each try starts anew. */
static int try_bind(struct xsk *xsk, int ifindex, const struct xsk_spec *spec)
{
	struct xsk_queue *queue = xsk->queue;
	int result = 0;

	xsk->fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (xsk->fd < 0)
		return fail(errno, xsk->name, "socket");
	xsk->tx_fd = xsk->fd;
	if (queue->umem->fd < 0)
		result = umem_register(queue->umem, spec, xsk->name, xsk->fd);
	if (!result)
		result = create_rings(xsk, spec);
	if (!result)
		result = bind_socket(xsk, ifindex, spec);
	if (result)
		xsk_destroy(xsk);
	else if (queue->fd < 0)
		queue->fd = xsk->fd;
	return result;
}

static int bind_patiently(struct xsk *xsk, int ifindex, const struct xsk_spec *spec)
{
	int64_t deadline_ns = now_ns() + BIND_BUDGET_NS;
	int64_t backoff_ns = NS_PER_MS;
	int result;

	for (;;) {
		result = try_bind(xsk, ifindex, spec);
		if (result != -EBUSY || now_ns() + backoff_ns > deadline_ns)
			break;
		sleep_ns(backoff_ns);
		if (backoff_ns < BIND_BACKOFF_MAX_NS)
			backoff_ns *= 2;
		xsk->bind_retries++;
	}
	return result;
}

static int set_option(const struct xsk *xsk, int option, const char *step, int value)
{
	return setsockopt(xsk->fd, SOL_SOCKET, option, &value, sizeof(value))
		       ? fail(errno, xsk->name, step)
		       : 0;
}

static int prefer_busy_poll(const struct xsk *xsk, const struct xsk_spec *spec)
{
	int result = set_option(xsk, SO_PREFER_BUSY_POLL, "SO_PREFER_BUSY_POLL", 1);

	if (result)
		return fail_hint(result, "busy-poll needs a kernel of 5.11 or newer");
	result = set_option(xsk, SO_BUSY_POLL, "SO_BUSY_POLL", spec->busy_poll_us);
	return result ? result
		      : set_option(xsk, SO_BUSY_POLL_BUDGET, "SO_BUSY_POLL_BUDGET",
				   spec->busy_poll_budget);
}

static void set_names(struct xsk *xsk, const char *ifname, size_t number,
		      const struct xsk_spec *spec)
{
	int queue_id = xsk->queue->queue_id;

	if (spec->sockets == 1) {
		snprintf(xsk->name, sizeof(xsk->name), "%s queue %d", ifname, queue_id);
		snprintf(xsk->prefix, sizeof(xsk->prefix), "q%d", queue_id);
		return;
	}
	snprintf(xsk->name, sizeof(xsk->name), "%s queue %d socket %zu", ifname, queue_id, number);
	snprintf(xsk->prefix, sizeof(xsk->prefix), "q%d.s%zu", queue_id, number);
}

int xsk_create(struct xsk *xsk, const char *ifname, struct xsk_queue *queue, size_t number,
	       bool sends, const struct xsk_spec *spec)
{
	int result;

	memset(xsk, 0, sizeof(*xsk));
	xsk->queue = queue;
	xsk->area = queue->umem->area;
	xsk->batch = spec->batch;
	xsk->sends = sends;
	xsk->asks = spec->wakeup != WAKEUP_IRQ;
	set_names(xsk, ifname, number, spec);
	result = bind_patiently(xsk, if_nametoindex(ifname), spec);
	if (result)
		return hint_bind(result, ifname, queue->queue_id, spec);
	if (spec->wakeup == WAKEUP_BUSY_POLL)
		result = prefer_busy_poll(xsk, spec);
	if (result)
		xsk_destroy(xsk);
	return result;
}

void xsk_destroy(struct xsk *xsk)
{
	struct xsk_queue *queue = xsk->queue;

	xsk_ring_unmap(&xsk->rx_mapping);
	xsk_ring_unmap(&xsk->tx_mapping);
	if (queue->fd < 0 || queue->fd == xsk->fd) {
		xsk_ring_unmap(&queue->fill_mapping);
		xsk_ring_unmap(&queue->completion_mapping);
		queue->fd = -1;
	}
	if (queue->umem->fd == xsk->fd)
		queue->umem->fd = -1;
	close(xsk->fd);
}

int xsk_fill(struct xsk_queue *queue, const char *name, uint64_t frames, int frame_size)
{
	uint64_t addr = queue->frames_start;
	uint32_t i = 0;

	if (frames > queue->fill.size)
		frames = queue->fill.size;
	if (xsk_ring_prod__reserve(&queue->fill, frames, &i) != frames)
		return fail_because(0, name, "fill", "the fill ring does not hold %u frames",
				    (unsigned int)frames);
	for (uint64_t frame = 0; frame < frames; frame++, addr += frame_size)
		*xsk_ring_prod__fill_addr(&queue->fill, i++) = addr;
	xsk_ring_prod__submit(&queue->fill, frames);
	return 0;
}

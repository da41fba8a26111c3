// SPDX-License-Identifier: GPL-2.0-or-later
#include "xsk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "clock.h"
#include "error.h"
#include "load.h"

#define BIND_BUDGET_NS (2 * NS_PER_S)
#define BIND_BACKOFF_MAX_NS (64 * NS_PER_MS)
#define COMPLETION_RING 64 /* nothing is sent, but the kernel wants the ring */

/* The members of struct xdp_statistics, in order; the last three came with 5.9. */
static const char *const statistics_names[] = {
	"rx_dropped",   "rx_invalid_descs",         "tx_invalid_descs",
	"rx_ring_full", "rx_fill_ring_empty_descs", "tx_ring_empty_descs"};

#define STATISTICS_LEN (sizeof(statistics_names) / sizeof(statistics_names[0]))

static int fail_umem(int err, const struct xsk *xsk)
{
	int result = fail(err, xsk->name, "register UMEM");

	if (err == ENOBUFS || err == ENOMEM)
		fail_hint(result,
			  "%zu KiB are asked for, and RLIMIT_MEMLOCK is %llu KiB: raise it with "
			  "'ulimit -l', run with CAP_IPC_LOCK, or set fewer frames",
			  xsk->area_size / 1024, load_memlock_kib());
	return result;
}

static int create_umem(struct xsk *xsk, const struct xsk_spec *spec)
{
	struct xsk_umem_config config = {
		.fill_size = spec->ring_fill,
		.comp_size = COMPLETION_RING,
		.frame_size = spec->frame_size,
	};
	int err = -xsk_umem__create(&xsk->umem, xsk->area, xsk->area_size, &xsk->fill,
				    &xsk->completion, &config);

	if (!err)
		return 0;
	return fail_umem(err, xsk);
}

static int bind_socket(struct xsk *xsk, const char *ifname, const struct xsk_spec *spec)
{
	struct xsk_socket_config config = {
		.rx_size = spec->ring_rx,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = XDP_USE_NEED_WAKEUP,
	};
	int err;

	config.bind_flags |= spec->bind_mode == BIND_ZERO_COPY ? XDP_ZEROCOPY : XDP_COPY;
	err = -xsk_socket__create(&xsk->socket, ifname, xsk->queue_id, xsk->umem, &xsk->rx, NULL,
				  &config);
	return err ? fail(err, xsk->name, "bind") : 0;
}

static void destroy_umem(struct xsk *xsk)
{
	if (xsk->umem)
		xsk_umem__delete(xsk->umem);
	xsk->umem = NULL;
}

/* A UMEM whose socket could not be bound is half set up, so each try starts anew. */
static int try_bind(struct xsk *xsk, const char *ifname, const struct xsk_spec *spec)
{
	int result = create_umem(xsk, spec);

	if (result)
		return result;
	result = bind_socket(xsk, ifname, spec);
	if (result)
		destroy_umem(xsk);
	return result;
}

static int bind_patiently(struct xsk *xsk, const char *ifname, const struct xsk_spec *spec)
{
	int64_t deadline_ns = now_ns() + BIND_BUDGET_NS;
	int64_t backoff_ns = NS_PER_MS;
	int result;

	for (;;) {
		result = try_bind(xsk, ifname, spec);
		if (result != -EBUSY || now_ns() + backoff_ns > deadline_ns)
			break;
		sleep_ns(backoff_ns);
		if (backoff_ns < BIND_BACKOFF_MAX_NS)
			backoff_ns *= 2;
		xsk->bind_retries++;
	}
	if (result == -EBUSY)
		fail_hint(0, "another AF_XDP socket is bound to this queue");
	return result;
}

static int fill_ring(struct xsk *xsk)
{
	uint32_t i = 0;

	if (xsk_ring_prod__reserve(&xsk->fill, xsk->frames, &i) != xsk->frames)
		return fail_because(0, xsk->name, "fill", "the fill ring does not hold %u frames",
				    xsk->frames);
	for (uint64_t frame = 0; frame < xsk->frames; frame++)
		*xsk_ring_prod__fill_addr(&xsk->fill, i++) = frame * xsk->frame_size;
	xsk_ring_prod__submit(&xsk->fill, xsk->frames);
	return 0;
}

int xsk_create(struct xsk *xsk, const char *ifname, int queue_id, const struct xsk_spec *spec)
{
	int result;

	memset(xsk, 0, sizeof(*xsk));
	snprintf(xsk->name, sizeof(xsk->name), "%s queue %d", ifname, queue_id);
	xsk->queue_id = queue_id;
	xsk->frame_size = spec->frame_size;
	xsk->frames = spec->frames < spec->ring_fill ? spec->frames : spec->ring_fill;
	xsk->area_size = (size_t)spec->frames * spec->frame_size;
	xsk->area = mmap(NULL, xsk->area_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	if (xsk->area == MAP_FAILED)
		return fail(errno, xsk->name, "allocate UMEM");
	result = bind_patiently(xsk, ifname, spec);
	if (result)
		goto unmap;
	result = fill_ring(xsk);
	if (!result)
		return 0;
	xsk_destroy(xsk);
	return result;
unmap:
	munmap(xsk->area, xsk->area_size);
	return result;
}

void xsk_destroy(struct xsk *xsk)
{
	xsk_socket__delete(xsk->socket);
	destroy_umem(xsk);
	munmap(xsk->area, xsk->area_size);
}

/* The kernel fills what the caller has room for and says how much that was. */
static int get_statistics(const struct xsk *xsk, uint64_t *values, socklen_t *len)
{
	*len = STATISTICS_LEN * sizeof(*values);
	if (getsockopt(xsk_socket__fd(xsk->socket), SOL_XDP, XDP_STATISTICS, values, len))
		return fail(errno, xsk->name, "XDP_STATISTICS");
	return 0;
}

int xsk_verify(const struct xsk *xsk, const struct xsk_spec *spec, json_t **object)
{
	struct xdp_options options;
	uint64_t statistics[STATISTICS_LEN];
	socklen_t len = sizeof(options);
	int mode, result;

	if (getsockopt(xsk_socket__fd(xsk->socket), SOL_XDP, XDP_OPTIONS, &options, &len))
		return fail(errno, xsk->name, "XDP_OPTIONS");
	mode = options.flags & XDP_OPTIONS_ZEROCOPY ? BIND_ZERO_COPY : BIND_COPY;
	if (mode != spec->bind_mode)
		return fail_because(0, xsk->name, "verify", "bound in mode %s, not %s",
				    bind_mode_names[mode], bind_mode_names[spec->bind_mode]);
	result = get_statistics(xsk, statistics, &len);
	if (result)
		return result;
	*object = json_pack("{s:i, s:s, s:i, s:i, s:i, s:i}", "queue_id", xsk->queue_id,
			    "bind_mode", bind_mode_names[mode], "bind_retries",
			    (int)xsk->bind_retries, "ring_rx", (int)xsk->rx.size, "ring_fill",
			    (int)xsk->fill.size, "statistics_len", (int)len);
	return *object ? 0 : fail(ENOMEM, xsk->name, "describe socket");
}

int xsk_read_statistics(const struct xsk *xsk, struct counters *counters)
{
	uint64_t values[STATISTICS_LEN];
	socklen_t len;
	int result = get_statistics(xsk, values, &len);

	for (size_t i = 0; !result && i < len / sizeof(values[0]); i++)
		result = counters_set(counters, values[i], "q%d.%s", xsk->queue_id,
				      statistics_names[i]);
	return result;
}

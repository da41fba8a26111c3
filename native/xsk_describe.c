// SPDX-License-Identifier: GPL-2.0-or-later
/* What the kernel says about a socket. */
#include "xsk.h"

#include <errno.h>
#include <sys/socket.h>

#include "error.h"

/* The members of struct xdp_statistics, in order; the last three came with 5.9. */
static const char *const statistics_names[] = {
	"rx_dropped",   "rx_invalid_descs",         "tx_invalid_descs",
	"rx_ring_full", "rx_fill_ring_empty_descs", "tx_ring_empty_descs"};

#define STATISTICS_LEN (sizeof(statistics_names) / sizeof(statistics_names[0]))

/* The kernel fills what the caller has room for and says how much that was. */
static int get_statistics(const struct xsk *xsk, uint64_t *values, socklen_t *len)
{
	*len = STATISTICS_LEN * sizeof(*values);
	if (getsockopt(xsk->fd, SOL_XDP, XDP_STATISTICS, values, len))
		return fail(errno, xsk->name, "XDP_STATISTICS");
	return 0;
}

static int verify_bind_mode(const struct xsk *xsk, int wanted)
{
	struct xdp_options options;
	socklen_t len = sizeof(options);
	int mode;

	if (getsockopt(xsk->fd, SOL_XDP, XDP_OPTIONS, &options, &len))
		return fail(errno, xsk->name, "XDP_OPTIONS");
	mode = options.flags & XDP_OPTIONS_ZEROCOPY ? BIND_ZERO_COPY : BIND_COPY;
	if (mode == wanted)
		return 0;
	return fail_because(0, xsk->name, "verify", "bound in mode %s, not %s",
			    bind_mode_names[mode], bind_mode_names[wanted]);
}

static int verify_busy_poll(const struct xsk *xsk, const struct xsk_spec *spec)
{
	int us = 0;
	socklen_t len = sizeof(us);

	if (spec->wakeup != WAKEUP_BUSY_POLL)
		return 0;
	if (getsockopt(xsk->fd, SOL_SOCKET, SO_BUSY_POLL, &us, &len))
		return fail(errno, xsk->name, "SO_BUSY_POLL");
	if (us == spec->busy_poll_us)
		return 0;
	return fail_because(0, xsk->name, "verify", "SO_BUSY_POLL is %d us, not %d", us,
			    spec->busy_poll_us);
}

int xsk_verify(const struct xsk *xsk, const struct xsk_spec *spec, json_t **object)
{
	uint64_t statistics[STATISTICS_LEN];
	const struct xsk_queue *queue = xsk->queue;
	socklen_t len;
	int result = verify_bind_mode(xsk, spec->bind_mode);

	if (!result)
		result = verify_busy_poll(xsk, spec);
	if (!result)
		result = get_statistics(xsk, statistics, &len);
	if (result)
		return result;
	*object =
		json_pack("{s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:i}", "queue_id", queue->queue_id,
			  "bind_mode", bind_mode_names[spec->bind_mode], "bind_retries",
			  (int)xsk->bind_retries, "ring_rx", (int)xsk->rx.size, "ring_tx",
			  (int)xsk->tx.size, "ring_fill", (int)queue->fill.size, "ring_completion",
			  (int)queue->completion.size, "statistics_len", (int)len);
	return *object ? 0 : fail(ENOMEM, xsk->name, "describe socket");
}

int xsk_read_statistics(const struct xsk *xsk, struct counters *counters)
{
	uint64_t values[STATISTICS_LEN];
	socklen_t len;
	int result = get_statistics(xsk, values, &len);

	for (size_t i = 0; !result && i < len / sizeof(values[0]); i++)
		result = counters_set(counters, values[i], "%s.%s", xsk->prefix,
				      statistics_names[i]);
	return result;
}

int xsk_read_rings(const struct xsk *xsk, struct counters *counters)
{
	const struct xsk_queue *queue = xsk->queue;
	const struct {
		const char *name;
		const uint32_t *index;
	} indices[] = {
		{"rx_producer", xsk->rx.producer},
		{"rx_consumer", xsk->rx.consumer},
		{"tx_producer", xsk->tx.producer},
		{"tx_consumer", xsk->tx.consumer},
		{"fill_producer", queue->fill.producer},
		{"fill_consumer", queue->fill.consumer},
		{"completion_producer", queue->completion.producer},
		{"completion_consumer", queue->completion.consumer},
	};
	int result = 0;

	for (size_t i = 0; !result && i < sizeof(indices) / sizeof(indices[0]); i++)
		if (indices[i].index)
			result = counters_set(counters,
					      __atomic_load_n(indices[i].index, __ATOMIC_RELAXED),
					      "%s.%s", xsk->prefix, indices[i].name);
	return result;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "rxdrop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "error.h"
#include "thread.h"
#include "window.h"
#include "xsk.h"

#define POLL_MS 50 /* how long a stop may have to wait */

/* What the loop did on one socket; written by its thread only. */
struct rxdrop_counters {
	uint64_t rx_packets;
	uint64_t rx_bytes;
	uint64_t empty_polls;
	uint64_t wakeups;
	uint64_t fill_fails;
} __attribute__((aligned(128)));

/* One thread that takes frames from all sockets and gives them straight back. */
struct rxdrop {
	struct rxdrop_counters counters[MAX_QUEUES];
	struct rxdrop_counters taken[MAX_QUEUES]; /* by the sampler */
	struct xsk sockets[MAX_QUEUES];
	size_t len;
	const struct xsk_spec *spec;
	pthread_t thread;
	bool started;
	bool stop;
};

/* Add to a counter of our own thread that others read. */
static inline void add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static inline bool stopping(const struct rxdrop *rxdrop)
{
	return __atomic_load_n(&rxdrop->stop, __ATOMIC_RELAXED);
}

static inline void wake_if_asked(struct xsk *xsk, struct rxdrop_counters *counters)
{
	if (!xsk_ring_prod__needs_wakeup(&xsk->fill))
		return;
	recvfrom(xsk_socket__fd(xsk->socket), NULL, 0, MSG_DONTWAIT, NULL, NULL);
	add(&counters->wakeups, 1);
}

/* Take up to a batch of frames and give them back; how many they were. */
static inline uint32_t serve(struct xsk *xsk, uint32_t batch, struct rxdrop_counters *counters)
{
	uint32_t from = 0, to = 0, n;
	uint64_t bytes = 0;

	n = xsk_cons_nb_avail(&xsk->rx, batch);
	if (!n) {
		add(&counters->empty_polls, 1);
		return 0;
	}
	/* The ring has room for all frames in circulation, so this would be a fault of the kernel.
	 */
	if (xsk_ring_prod__reserve(&xsk->fill, n, &to) != n) {
		add(&counters->fill_fails, 1);
		return 0;
	}
	xsk_ring_cons__peek(&xsk->rx, n, &from);
	for (uint32_t i = 0; i < n; i++) {
		const struct xdp_desc *desc = xsk_ring_cons__rx_desc(&xsk->rx, from + i);

		*xsk_ring_prod__fill_addr(&xsk->fill, to + i) = xsk_umem__extract_addr(desc->addr);
		bytes += desc->len;
	}
	xsk_ring_prod__submit(&xsk->fill, n);
	xsk_ring_cons__release(&xsk->rx, n);
	add(&counters->rx_packets, n);
	add(&counters->rx_bytes, bytes);
	return n;
}

static void *run_busy(void *argument)
{
	struct rxdrop *rxdrop = argument;

	while (!stopping(rxdrop)) {
		window_app();
		for (size_t i = 0; i < rxdrop->len; i++)
			if (!serve(&rxdrop->sockets[i], rxdrop->spec->batch, &rxdrop->counters[i]))
				wake_if_asked(&rxdrop->sockets[i], &rxdrop->counters[i]);
	}
	return NULL;
}

static void *run_poll(void *argument)
{
	struct rxdrop *rxdrop = argument;
	struct pollfd fds[MAX_QUEUES];

	for (size_t i = 0; i < rxdrop->len; i++)
		fds[i] = (struct pollfd){.fd = xsk_socket__fd(rxdrop->sockets[i].socket),
					 .events = POLLIN};
	while (!stopping(rxdrop)) {
		uint32_t n = 0;

		window_app();
		for (size_t i = 0; i < rxdrop->len; i++)
			n += serve(&rxdrop->sockets[i], rxdrop->spec->batch, &rxdrop->counters[i]);
		if (n)
			continue;
		poll(fds, rxdrop->len, POLL_MS);
		for (size_t i = 0; i < rxdrop->len; i++)
			add(&rxdrop->counters[i].wakeups, 1);
	}
	return NULL;
}

static int create_sockets(struct rxdrop *rxdrop, const char *ifname, const struct loaded *program)
{
	int result = 0;

	for (size_t i = 0; !result && i < rxdrop->spec->queues_len; i++) {
		struct xsk *xsk = &rxdrop->sockets[i];

		result = xsk_create(xsk, ifname, rxdrop->spec->queues[i], rxdrop->spec);
		if (result)
			break;
		rxdrop->len++;
		result = loaded_set_map(program, "sockets", xsk->queue_id,
					xsk_socket__fd(xsk->socket));
	}
	return result;
}

static void destroy(struct app *app)
{
	struct rxdrop *rxdrop = (struct rxdrop *)app;

	__atomic_store_n(&rxdrop->stop, true, __ATOMIC_RELAXED);
	if (rxdrop->started)
		pthread_join(rxdrop->thread, NULL);
	while (rxdrop->len)
		xsk_destroy(&rxdrop->sockets[--rxdrop->len]);
	free(rxdrop);
}

static int create(const struct spec *spec, struct port *port, struct app **app)
{
	struct rxdrop *rxdrop = aligned_alloc(_Alignof(struct rxdrop), sizeof(*rxdrop));
	int result;

	if (!rxdrop)
		return fail(ENOMEM, spec->ifname, "make sockets");
	memset(rxdrop, 0, sizeof(*rxdrop));
	rxdrop->spec = &spec->xsk;
	*app = (struct app *)rxdrop;
	result = create_sockets(rxdrop, spec->ifname, &port->program);
	if (result)
		destroy(*app);
	return result;
}

static int start(struct app *app)
{
	struct rxdrop *rxdrop = (struct rxdrop *)app;
	int result =
		thread_start(&rxdrop->thread, "xsk.app_cpu", rxdrop->spec->app_cpu,
			     rxdrop->spec->wakeup == WAKEUP_BUSY ? run_busy : run_poll, rxdrop);

	rxdrop->started = !result;
	return result;
}

static int describe(const struct app *app, json_t *ready)
{
	const struct rxdrop *rxdrop = (const struct rxdrop *)app;
	json_t *list = json_array();
	json_t *object;
	int result = json_object_set_new(ready, "xsk", list)
			     ? fail(ENOMEM, "xsk", "describe sockets")
			     : 0;

	for (size_t i = 0; !result && i < rxdrop->len; i++) {
		result = xsk_verify(&rxdrop->sockets[i], rxdrop->spec, &object);
		if (!result && json_array_append_new(list, object))
			result = fail(ENOMEM, "xsk", "describe sockets");
	}
	return result;
}

static uint64_t load(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static int take(void *context)
{
	struct rxdrop *rxdrop = context;

	for (size_t i = 0; i < rxdrop->len; i++) {
		const struct rxdrop_counters *own = &rxdrop->counters[i];

		rxdrop->taken[i] = (struct rxdrop_counters){
			.rx_packets = load(&own->rx_packets),
			.rx_bytes = load(&own->rx_bytes),
			.empty_polls = load(&own->empty_polls),
			.wakeups = load(&own->wakeups),
			.fill_fails = load(&own->fill_fails),
		};
	}
	return 0;
}

static int read_counters(const void *context, struct counters *counters)
{
	const struct rxdrop *rxdrop = context;
	int result = 0;

	for (size_t i = 0; !result && i < rxdrop->len; i++) {
		const struct rxdrop_counters *taken = &rxdrop->taken[i];
		const struct {
			const char *name;
			uint64_t value;
		} values[] = {
			{"rx_packets", taken->rx_packets},   {"rx_bytes", taken->rx_bytes},
			{"empty_polls", taken->empty_polls}, {"wakeups", taken->wakeups},
			{"fill_fails", taken->fill_fails},
		};

		for (size_t j = 0; !result && j < sizeof(values) / sizeof(values[0]); j++)
			result = counters_set(counters, values[j].value, "q%d.%s",
					      rxdrop->sockets[i].queue_id, values[j].name);
	}
	return result;
}

static int read_statistics(const void *context, struct counters *counters)
{
	const struct rxdrop *rxdrop = context;
	int result = 0;

	for (size_t i = 0; !result && i < rxdrop->len; i++)
		result = xsk_read_statistics(&rxdrop->sockets[i], counters);
	return result;
}

static void add_sources(struct app *app, struct sampler *sampler)
{
	sampler_add(sampler, (struct source){"xsk_app", take, read_counters, app, .cheap = true});
	sampler_add(sampler, (struct source){"xsk", .read = read_statistics, .context = app});
}

const struct app_ops rxdrop_ops = {
	.create = create,
	.start = start,
	.describe = describe,
	.add_sources = add_sources,
	.destroy = destroy,
};

// SPDX-License-Identifier: GPL-2.0-or-later
#include "rxdrop.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "error.h"
#include "thread.h"
#include "window.h"

#define POLL_MS 50 /* how long a stop may have to wait */

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

int rxdrop_create(struct rxdrop *rxdrop, const char *ifname, const struct xsk_spec *spec,
		  const struct loaded *program)
{
	int result = 0;

	memset(rxdrop, 0, sizeof(*rxdrop));
	rxdrop->spec = spec;
	for (size_t i = 0; !result && i < spec->queues_len; i++) {
		struct xsk *xsk = &rxdrop->sockets[i];

		result = xsk_create(xsk, ifname, spec->queues[i], spec);
		if (result)
			break;
		rxdrop->len++;
		result = loaded_set_map(program, "sockets", xsk->queue_id,
					xsk_socket__fd(xsk->socket));
	}
	if (result)
		rxdrop_destroy(rxdrop);
	return result;
}

void rxdrop_destroy(struct rxdrop *rxdrop)
{
	__atomic_store_n(&rxdrop->stop, true, __ATOMIC_RELAXED);
	if (rxdrop->started)
		pthread_join(rxdrop->thread, NULL);
	while (rxdrop->len)
		xsk_destroy(&rxdrop->sockets[--rxdrop->len]);
}

int rxdrop_start(struct rxdrop *rxdrop)
{
	int result =
		thread_start(&rxdrop->thread, "xsk.app_cpu", rxdrop->spec->app_cpu,
			     rxdrop->spec->wakeup == WAKEUP_BUSY ? run_busy : run_poll, rxdrop);

	rxdrop->started = !result;
	return result;
}

int rxdrop_verify(const struct rxdrop *rxdrop, json_t **list)
{
	json_t *object;
	int result = 0;

	*list = json_array();
	for (size_t i = 0; !result && i < rxdrop->len; i++) {
		result = xsk_verify(&rxdrop->sockets[i], rxdrop->spec, &object);
		if (!result && json_array_append_new(*list, object))
			result = fail(ENOMEM, "xsk", "describe sockets");
	}
	if (result)
		json_decref(*list);
	return result;
}

static uint64_t load(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

int rxdrop_take(void *context)
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

int rxdrop_read(const void *context, struct counters *counters)
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

int rxdrop_read_statistics(const void *context, struct counters *counters)
{
	const struct rxdrop *rxdrop = context;
	int result = 0;

	for (size_t i = 0; !result && i < rxdrop->len; i++)
		result = xsk_read_statistics(&rxdrop->sockets[i], counters);
	return result;
}

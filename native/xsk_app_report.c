// SPDX-License-Identifier: GPL-2.0-or-later
/* What an AF_XDP application tells of itself, and how its threads wait. */
#include "xsk_app.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>

#define POLL_MS 50 /* how long a stop may have to wait */

static const struct {
	const char *name;
	size_t offset;
} counter_names[] = {
	{"rx_packets", offsetof(struct xsk_counters, rx_packets)},
	{"rx_bytes", offsetof(struct xsk_counters, rx_bytes)},
	{"tx_packets", offsetof(struct xsk_counters, tx_packets)},
	{"tx_bytes", offsetof(struct xsk_counters, tx_bytes)},
	{"completions", offsetof(struct xsk_counters, completions)},
	{"dropped", offsetof(struct xsk_counters, dropped)},
	{"empty_polls", offsetof(struct xsk_counters, empty_polls)},
	{"wakeups", offsetof(struct xsk_counters, wakeups)},
	{"fill_fails", offsetof(struct xsk_counters, fill_fails)},
	{"tx_full", offsetof(struct xsk_counters, tx_full)},
	{"tx_wakeups", offsetof(struct xsk_counters, tx_wakeups)},
	{"tx_eagain", offsetof(struct xsk_counters, tx_eagain)},
	{"tx_ebusy", offsetof(struct xsk_counters, tx_ebusy)},
	{"tx_enobufs", offsetof(struct xsk_counters, tx_enobufs)},
	{"tx_enetdown", offsetof(struct xsk_counters, tx_enetdown)},
};

#define COUNTERS_LEN (sizeof(counter_names) / sizeof(counter_names[0]))

static uint64_t *counter_at(struct xsk_counters *counters, size_t i)
{
	return (uint64_t *)((char *)counters + counter_names[i].offset);
}

static int take_counters(void *context)
{
	struct xsk_app *app = context;

	for (size_t i = 0; i < app->threads_len; i++)
		if (__atomic_load_n(&app->threads[i].ended_early, __ATOMIC_ACQUIRE)) {
			failure = app->threads[i].failed;
			return fail_result();
		}
	for (size_t i = 0; i < app->len; i++)
		for (size_t j = 0; j < COUNTERS_LEN; j++)
			*counter_at(&app->taken[i], j) = __atomic_load_n(
				counter_at(&app->sockets[i].counters, j), __ATOMIC_RELAXED);
	return 0;
}

static int read_counters(const void *context, struct counters *counters)
{
	const struct xsk_app *app = context;
	int result = 0;

	for (size_t i = 0; !result && i < app->len; i++)
		for (size_t j = 0; !result && j < COUNTERS_LEN; j++)
			result = counters_set(
				counters, *counter_at((struct xsk_counters *)&app->taken[i], j),
				"%s.%s", app->sockets[i].prefix, counter_names[j].name);
	return result;
}

static int read_all(const struct xsk_app *app, struct counters *counters,
		    int (*read_one)(const struct xsk *xsk, struct counters *counters))
{
	int result = 0;

	for (size_t i = 0; !result && i < app->len; i++)
		result = read_one(&app->sockets[i], counters);
	return result;
}

static int read_statistics(const void *app, struct counters *counters)
{
	return read_all(app, counters, xsk_read_statistics);
}

static int read_rings(const void *app, struct counters *counters)
{
	return read_all(app, counters, xsk_read_rings);
}

void xsk_app_add_sources(struct app *app, struct sampler *sampler)
{
	sampler_add(sampler,
		    (struct source){"xsk_app", take_counters, read_counters, app, .cheap = true});
	sampler_add(sampler, (struct source){"xsk", .read = read_statistics, .context = app});
	sampler_add(sampler, (struct source){"xsk_rings", .read = read_rings, .context = app});
}

static int describe_sockets(const struct xsk_app *app, json_t *list)
{
	json_t *object;
	int result = 0;

	for (size_t i = 0; !result && i < app->len; i++) {
		result = xsk_verify(&app->sockets[i], app->spec, &object);
		if (!result && json_array_append_new(list, object))
			result = fail(ENOMEM, "xsk", "describe sockets");
	}
	return result;
}

int xsk_app_describe(const struct app *app, json_t *ready)
{
	const struct xsk_app *own = (const struct xsk_app *)app;
	json_t *list = json_array(), *napi;
	int result;

	if (json_object_set_new(ready, "xsk", list))
		return fail(ENOMEM, "xsk", "describe sockets");
	result = describe_sockets(own, list);
	if (result || own->spec->wakeup != WAKEUP_BUSY_POLL)
		return result;
	result = napi_settings_describe(&own->napi, &napi);
	if (!result && json_object_set_new(ready, "napi", napi))
		result = fail(ENOMEM, "xsk", "describe sockets");
	return result;
}

static void wake(struct xsk *xsk)
{
	recvfrom(xsk->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
	xsk_add(&xsk->counters.wakeups, 1);
}

void xsk_idle(struct xsk *xsk, int wakeup)
{
	switch (wakeup) {
	case WAKEUP_NEED_WAKEUP:
		if (xsk_ring_prod__needs_wakeup(&xsk->queue->fill))
			wake(xsk);
		break;
	case WAKEUP_BUSY_POLL:
		wake(xsk);
		break;
	}
}

/* No event tells that a frame was sent, and one that waits for it may be the last to receive into.
 */
static int find_timeout_ms(const struct xsk_thread *thread)
{
	for (size_t i = 0; i < thread->len; i++)
		if (thread->sockets[i]->queue->outstanding)
			return 1;
	return POLL_MS;
}

void xsk_sleep(struct xsk_thread *thread)
{
	struct pollfd fds[MAX_QUEUES];
	short events = thread->app->loop->transmits ? POLLOUT : POLLIN;

	if (thread->app->spec->wakeup != WAKEUP_POLL)
		return;
	for (size_t i = 0; i < thread->len; i++)
		fds[i] = (struct pollfd){.fd = thread->sockets[i]->fd, .events = events};
	poll(fds, thread->len, find_timeout_ms(thread));
	for (size_t i = 0; i < thread->len; i++)
		xsk_add(&thread->sockets[i]->counters.wakeups, 1);
}

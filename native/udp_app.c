// SPDX-License-Identifier: GPL-2.0-or-later
/* A UDP socket whose datagrams are received by the batch and dropped. */
#include "udp_app.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "app.h"
#include "clock.h"
#include "error.h"
#include "thread.h"
#include "window.h"

#ifndef SO_MEMINFO
#define SO_MEMINFO 55 /* of Linux 4.12 */
#endif

#define DATAGRAM_MAX 16384
#define BATCH_MAX 256
#define POLL_MS 50                         /* how long a stop may have to wait */
#define ADDRESS_BUDGET_NS (300 * NS_PER_S) /* beyond the phases */

/* Written by the application's thread only. */
struct udp_counters {
	uint64_t rx_packets;
	uint64_t rx_bytes; /* of payload */
	uint64_t wakeups;  /* calls that received anything */
} __attribute__((aligned(128)));

struct udp_app {
	struct udp_counters counters;
	struct udp_counters taken; /* by the sampler */
	struct mmsghdr messages[BATCH_MAX];
	struct iovec buffers[BATCH_MAX];
	const struct spec *spec;
	struct address address;
	uint8_t *memory;
	uint64_t drops;
	uint32_t drops_before; /* the kernel's counter, which has 32 bits */
	pthread_t thread;
	int fd;
	bool started;
	bool stop;
};

/* Add to a counter of our own thread that others read. */
static inline void add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static void *run(void *argument)
{
	struct udp_app *app = argument;

	while (!__atomic_load_n(&app->stop, __ATOMIC_RELAXED)) {
		int n = recvmmsg(app->fd, app->messages, app->spec->udp.batch, MSG_WAITFORONE,
				 NULL);
		uint64_t bytes = 0;

		window_app();
		for (int i = 0; i < n; i++)
			bytes += app->messages[i].msg_len;
		if (n <= 0)
			continue;
		add(&app->counters.rx_packets, n);
		add(&app->counters.rx_bytes, bytes);
		add(&app->counters.wakeups, 1);
	}
	return NULL;
}

static int create_buffers(struct udp_app *app)
{
	app->memory = calloc(app->spec->udp.batch, DATAGRAM_MAX);
	if (!app->memory)
		return fail(ENOMEM, app->spec->ifname, "make buffers");
	for (int i = 0; i < app->spec->udp.batch; i++) {
		app->buffers[i].iov_base = app->memory + (size_t)i * DATAGRAM_MAX;
		app->buffers[i].iov_len = DATAGRAM_MAX;
		app->messages[i].msg_hdr.msg_iov = &app->buffers[i];
		app->messages[i].msg_hdr.msg_iovlen = 1;
	}
	return 0;
}

static int set_up(int fd, const char *ifname)
{
	struct timeval timeout = {.tv_usec = POLL_MS * 1000};

	if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, ifname, strlen(ifname) + 1))
		return fail(errno, ifname, "bind UDP socket to port");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)))
		return fail(errno, ifname, "SO_RCVTIMEO");
	return 0;
}

static int open_socket(struct udp_app *app)
{
	const struct spec *spec = app->spec;
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(FRAME_ADDRESS),
		.sin_port = htons(spec->udp.port),
	};
	int result;

	app->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (app->fd < 0)
		return fail(errno, spec->ifname, "UDP socket");
	result = set_up(app->fd, spec->ifname);
	if (result || !bind(app->fd, (struct sockaddr *)&address, sizeof(address)))
		return result;
	result = fail(errno, spec->ifname, "bind UDP socket");
	return failure.err == EADDRINUSE
		       ? fail_hint(result, "another process has UDP port %d open: ss -ulpn",
				   spec->udp.port)
		       : result;
}

static void destroy(struct app *handle)
{
	struct udp_app *app = (struct udp_app *)handle;

	__atomic_store_n(&app->stop, true, __ATOMIC_RELAXED);
	if (app->started)
		pthread_join(app->thread, NULL);
	if (app->fd >= 0)
		close(app->fd);
	address_destroy(&app->address);
	free(app->memory);
	free(app);
}

static int create(const struct spec *spec, struct port *port, struct app **handle)
{
	struct udp_app *app = aligned_alloc(_Alignof(struct udp_app), sizeof(*app));
	int result;

	if (!app)
		return fail(ENOMEM, spec->ifname, "make UDP socket");
	memset(app, 0, sizeof(*app));
	app->spec = spec;
	app->fd = -1;
	*handle = (struct app *)app;
	result = create_buffers(app);
	if (!result)
		result = address_create(&app->address, &port->link,
					spec->settle_ns + spec->measure_ns + ADDRESS_BUDGET_NS);
	if (!result)
		result = open_socket(app);
	if (result)
		destroy(*handle);
	return result;
}

static int start(struct app *handle)
{
	struct udp_app *app = (struct udp_app *)handle;
	int result = thread_start(&app->thread, "udp.app_cpu", app->spec->udp.app_cpu, run, app);

	app->started = !result;
	return result;
}

static int describe(const struct app *handle, json_t *ready)
{
	const struct udp_app *app = (const struct udp_app *)handle;
	int rcvbuf = 0;
	socklen_t len = sizeof(rcvbuf);
	struct sockaddr_in bound = {0};
	socklen_t bound_len = sizeof(bound);
	char text[INET_ADDRSTRLEN] = "";

	getsockopt(app->fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, &len);
	getsockname(app->fd, (struct sockaddr *)&bound, &bound_len);
	inet_ntop(AF_INET, &bound.sin_addr, text, sizeof(text));
	if (json_object_set_new(ready, "udp",
				json_pack("{s:s, s:i, s:i, s:b}", "address", text, "port",
					  (int)ntohs(bound.sin_port), "rcvbuf", rcvbuf,
					  "address_added", app->address.ours)))
		return fail(ENOMEM, app->spec->ifname, "describe UDP socket");
	return 0;
}

static int take(void *context)
{
	struct udp_app *app = context;

	app->taken.rx_packets = __atomic_load_n(&app->counters.rx_packets, __ATOMIC_RELAXED);
	app->taken.rx_bytes = __atomic_load_n(&app->counters.rx_bytes, __ATOMIC_RELAXED);
	app->taken.wakeups = __atomic_load_n(&app->counters.wakeups, __ATOMIC_RELAXED);
	return 0;
}

static int read_counters(const void *context, struct counters *counters)
{
	const struct udp_counters *taken = &((const struct udp_app *)context)->taken;
	int result = counters_set(counters, taken->rx_packets, "rx_packets");

	if (!result)
		result = counters_set(counters, taken->rx_bytes, "rx_bytes");
	return result ? result : counters_set(counters, taken->wakeups, "wakeups");
}

/* What SO_RXQ_OVFL would tell with every datagram, without its cost. */
static int take_drops(void *context)
{
	struct udp_app *app = context;
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(app->fd, SOL_SOCKET, SO_MEMINFO, info, &len))
		return fail(errno, app->spec->ifname, "SO_MEMINFO");
	app->drops += info[SK_MEMINFO_DROPS] - app->drops_before;
	app->drops_before = info[SK_MEMINFO_DROPS];
	return 0;
}

static int read_drops(const void *context, struct counters *counters)
{
	return counters_set(counters, ((const struct udp_app *)context)->drops, "drops");
}

static void add_sources(struct app *app, struct sampler *sampler)
{
	sampler_add(sampler, (struct source){"udp_app", take, read_counters, app, .cheap = true});
	sampler_add(sampler, (struct source){"udp", take_drops, read_drops, app, .cheap = false});
	sampler_add(sampler, (struct source){"snmp", .read = snmp_read});
}

const struct app_ops udp_ops = {
	.create = create,
	.start = start,
	.describe = describe,
	.add_sources = add_sources,
	.destroy = destroy,
};

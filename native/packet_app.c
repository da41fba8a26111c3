// SPDX-License-Identifier: GPL-2.0-or-later
/* Applications of AF_PACKET: their sockets, their thread, and what they counted. */
#include "packet_app.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cases_packet.h"
#include "error.h"
#include "frame.h"
#include "thread.h"
#include "window.h"

struct packet_variant {
	int version;
	bool receives;
	bool sends;
	void (*run)(struct packet_app *app);
};

static const struct packet_variant variants[] = {
	[PACKET_V2_RXDROP] = {TPACKET_V2, .receives = true, .run = packet_rxdrop_v2},
	[PACKET_V2_L2FWD] = {TPACKET_V2, .receives = true, .sends = true, packet_l2fwd_v2},
	[PACKET_V2_TXONLY] = {TPACKET_V2, .sends = true, .run = packet_txonly_v2},
	[PACKET_V3_RXDROP] = {TPACKET_V3, .receives = true, .run = packet_rxdrop_v3},
	[PACKET_V3_L2FWD] = {TPACKET_V3, .receives = true, .sends = true, packet_l2fwd_v3},
	[PACKET_V3_TXONLY] = {TPACKET_V3, .sends = true, .run = packet_txonly_v3},
};

static void *run_receiving(void *argument)
{
	struct packet_app *app = argument;

	app->variant->run(app);
	return NULL;
}

static void *run_sending(void *argument)
{
	struct packet_app *app = argument;
	uint64_t one = 1;
	ssize_t n;

	while (sem_wait(&app->go))
		continue; /* interrupted */
	if (app->frames->window != NO_WINDOW)
		window_open(app->frames->window);
	app->variant->run(app);
	n = write(app->ended_fd, &one, sizeof(one));
	(void)n; /* an event counter that is full is as good */
	return NULL;
}

/* The longest frame that both a slot and the port take: the kernel stops at one that is longer. */
static uint32_t find_longest(const struct packet_app *app, const struct link *egress)
{
	uint32_t slot = app->spec->frame_size - TPACKET3_HDRLEN;
	uint32_t port = egress->mtu + ETH_HLEN;

	return slot < port ? slot : port;
}

static int check_frame(const struct packet_app *app)
{
	int frame_len = app->frames->frame.frame_len;

	if (app->variant->receives || frame_len <= (int)app->longest)
		return 0;
	return fail_usage("spec", "frame.frame_len",
			  "%d is not at most %u, what the port and a slot of packet.frame_size = "
			  "%d hold",
			  frame_len, app->longest, app->spec->frame_size);
}

static int open_sockets(struct packet_app *app, const struct spec *spec, const struct link *link)
{
	const struct packet_variant *variant = app->variant;
	struct link egress = *link;
	int result = spec->egress_ifname[0] ? link_read(spec->egress_ifname, &egress) : 0;

	app->longest = find_longest(app, &egress);
	if (!result)
		result = check_frame(app);
	if (!result && variant->receives)
		result = packet_socket_receive(&app->receiver.socket, link, variant->version,
					       &spec->packet);
	if (!result && variant->sends)
		result = packet_socket_transmit(&app->sender.socket, &egress, variant->version,
						&spec->packet);
	return result;
}

/* The kernel leaves a frame in its slot, so this is done once. */
static void fill_slots(const struct packet_app *app)
{
	for (uint32_t i = 0; i < app->sender.socket.frames; i++)
		frame_fill(&app->frames->frame,
			   packet_slot_frame(packet_slot(&app->sender, i), app->variant->version));
}

static void stop(struct app *handle)
{
	struct packet_app *app = (struct packet_app *)handle;

	__atomic_store_n(&app->stop, true, __ATOMIC_RELAXED);
	sem_post(&app->go);
	if (app->started)
		pthread_join(app->thread, NULL);
	app->started = false;
}

static void destroy(struct app *handle)
{
	struct packet_app *app = (struct packet_app *)handle;

	stop(handle);
	packet_socket_destroy(&app->receiver.socket);
	packet_socket_destroy(&app->sender.socket);
	if (app->ended_fd >= 0)
		close(app->ended_fd);
	sem_destroy(&app->go);
	free(app);
}

static int create(const struct spec *spec, struct port *port, struct app **handle)
{
	struct packet_app *app = aligned_alloc(_Alignof(struct packet_app), sizeof(*app));
	int result;

	if (!app)
		return fail(ENOMEM, spec->ifname, "make packet sockets");
	memset(app, 0, sizeof(*app));
	app->spec = &spec->packet;
	app->frames = &spec->generator;
	app->variant = &variants[spec->test_case - cases_packet];
	app->receiver.socket.fd = app->sender.socket.fd = -1;
	sem_init(&app->go, 0, 0);
	app->ended_fd = eventfd(0, EFD_CLOEXEC);
	result = app->ended_fd < 0 ? fail(errno, spec->ifname, "eventfd")
				   : open_sockets(app, spec, &port->link);
	*handle = (struct app *)app;
	if (result)
		destroy(*handle);
	else if (!app->variant->receives)
		fill_slots(app);
	return result;
}

static int start(struct app *handle)
{
	struct packet_app *app = (struct packet_app *)handle;
	int result = thread_start(&app->thread, "packet.app_cpu", app->spec->app_cpu,
				  app->variant->receives ? run_receiving : run_sending, app);

	app->started = !result;
	return result;
}

static void go(struct app *handle)
{
	sem_post(&((struct packet_app *)handle)->go);
}

static int ended_fd(const struct app *handle)
{
	return ((const struct packet_app *)handle)->ended_fd;
}

static int describe(const struct app *handle, json_t *ready)
{
	const struct packet_app *app = (const struct packet_app *)handle;
	const struct packet_socket *sockets[] = {&app->receiver.socket, &app->sender.socket};
	static const char *const names[] = {"receive", "transmit"};
	json_t *object = json_object();
	int result = json_object_set_new(ready, "packet", object);

	for (int i = 0; !result && i < 2; i++)
		if (sockets[i]->fd >= 0)
			result = json_object_set_new(object, names[i],
						     packet_socket_describe(sockets[i]));
	return result ? fail(ENOMEM, app->receiver.socket.ifname, "describe packet sockets") : 0;
}

static int take(void *context)
{
	struct packet_app *app = context;
	const uint64_t *own = (const uint64_t *)&app->counters;
	uint64_t *taken = (uint64_t *)&app->taken;

	for (size_t i = 0; i < sizeof(app->counters) / sizeof(*own); i++)
		taken[i] = __atomic_load_n(&own[i], __ATOMIC_RELAXED);
	return 0;
}

static int read_counters(const void *context, struct counters *counters)
{
	const struct packet_app *app = context;
	const struct packet_counters *taken = &app->taken;
	const struct {
		const char *name;
		uint64_t value;
		bool present;
	} values[] = {
		{"rx_packets", taken->rx_packets, app->variant->receives},
		{"rx_bytes", taken->rx_bytes, app->variant->receives},
		{"tx_packets", taken->tx_packets, app->variant->sends},
		{"tx_drops", taken->tx_drops, app->variant->receives && app->variant->sends},
		{"tx_errors", taken->tx_errors, app->variant->sends},
		{"tx_fails", taken->tx_fails, app->variant->sends},
		{"empty_polls", taken->empty_polls, true},
		{"wakeups", taken->wakeups, true},
	};
	int result = 0;

	for (size_t i = 0; !result && i < sizeof(values) / sizeof(values[0]); i++)
		if (values[i].present)
			result = counters_set(counters, values[i].value, "%s", values[i].name);
	return result;
}

static int take_statistics(void *context)
{
	struct packet_app *app = context;

	return packet_socket_statistics(&app->receiver.socket, &app->statistics);
}

static int read_statistics(const void *context, struct counters *counters)
{
	const struct packet_app *app = context;
	int result = counters_set(counters, app->statistics.packets, "tp_packets");

	if (!result)
		result = counters_set(counters, app->statistics.drops, "tp_drops");
	if (!result && app->variant->version == TPACKET_V3)
		result = counters_set(counters, app->statistics.freezes, "tp_freeze_q_cnt");
	return result;
}

static void add_sources(struct app *handle, struct sampler *sampler)
{
	struct packet_app *app = (struct packet_app *)handle;

	sampler_add(sampler, (struct source){"pkt_app", take, read_counters, app, .cheap = true});
	if (app->variant->receives)
		sampler_add(sampler, (struct source){"pkt", take_statistics, read_statistics, app,
						     .cheap = false});
}

#define COMMON_OPS                                                                          \
	.create = create, .start = start, .describe = describe, .add_sources = add_sources, \
	.destroy = destroy

const struct app_ops packet_ops = {COMMON_OPS};
const struct app_ops packet_send_ops = {COMMON_OPS, .go = go, .ended_fd = ended_fd, .stop = stop};

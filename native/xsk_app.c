// SPDX-License-Identifier: GPL-2.0-or-later
/* An AF_XDP application: its sockets, their memory and its threads. */
#include "xsk_app.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "thread.h"
#include "window.h"

/* A socket that transmits keeps as many for itself; the others are there to be received into. */
static size_t own_frames(const struct xsk_app *app)
{
	size_t half = app->spec->frames / 2;

	if (!app->loop->transmits)
		return 0;
	return half < (size_t)app->spec->ring_tx ? half : (size_t)app->spec->ring_tx;
}

static int create_umem(struct xsk_app *app, size_t sockets)
{
	int result =
		umem_create(&app->umems[app->umems_len], app->spec, app->trial->ifname, sockets);

	app->umems_len += !result;
	return result;
}

static int create_umems(struct xsk_app *app)
{
	size_t sockets = app->spec->queues_len * app->spec->sockets;
	int result = 0;

	if (app->spec->shared_umem)
		return create_umem(app, sockets);
	for (size_t i = 0; !result && i < sockets; i++)
		result = create_umem(app, 1);
	return result;
}

static void set_up_queue(struct xsk_app *app, size_t i)
{
	const struct xsk_spec *spec = app->spec;
	uint64_t size = (uint64_t)spec->frames * spec->frame_size * spec->sockets;

	app->queues[i].queue_id = spec->queues[i];
	app->queues[i].fd = -1;
	app->queues[i].umem = &app->umems[spec->shared_umem ? 0 : i];
	app->queues[i].frames_start = spec->shared_umem ? i * size : 0;
}

static int create_socket(struct xsk_app *app, struct xsk_queue *queue, size_t number,
			 const struct port *port)
{
	const struct xsk_spec *spec = app->spec;
	struct xsk *xsk = &app->sockets[app->len];
	int result = xsk_create(xsk, app->trial->ifname, queue, number, app->loop->sends, spec);

	if (result)
		return result;
	app->len++;
	if (!loaded_has_map(&port->program, "sockets"))
		return 0;
	return loaded_set_map(&port->program, "sockets", queue->queue_id * spec->sockets + number,
			      xsk->fd);
}

static int fill_queue(struct xsk_app *app, struct xsk_queue *queue, struct xsk *first)
{
	const struct xsk_spec *spec = app->spec;
	size_t own = own_frames(app), rest = (spec->frames - own) * spec->sockets;
	uint64_t start = queue->frames_start + rest * spec->frame_size;

	for (int i = 0; app->loop->transmits && i < spec->sockets; i++)
		xsk_transmit_prepare(&first[i], &app->trial->generator.frame,
				     start + i * own * spec->frame_size, own, spec->frame_size);
	return xsk_fill(queue, first->name, rest, spec->frame_size);
}

static int create_sockets(struct xsk_app *app, const struct port *port)
{
	int result = 0;

	for (size_t i = 0; !result && i < app->spec->queues_len; i++) {
		struct xsk *first = &app->sockets[app->len];

		set_up_queue(app, i);
		for (int j = 0; !result && j < app->spec->sockets; j++)
			result = create_socket(app, &app->queues[i], j, port);
		if (!result)
			result = fill_queue(app, &app->queues[i], first);
	}
	return result;
}

/* Sockets of one queue share rings, and so a thread. */
static void deal_out(struct xsk_app *app)
{
	const struct xsk_spec *spec = app->spec;

	app->threads_len =
		spec->app_cpus_len < spec->queues_len ? spec->app_cpus_len : spec->queues_len;
	for (size_t i = 0; i < app->len; i++) {
		size_t queue = app->sockets[i].queue - app->queues;
		struct xsk_thread *thread = &app->threads[queue % app->threads_len];

		thread->sockets[thread->len++] = &app->sockets[i];
	}
	for (size_t i = 0; i < app->threads_len; i++) {
		app->threads[i].app = app;
		app->threads[i].cpu = spec->app_cpus[i];
	}
}

/* How much each socket is to send. */
static void set_shares(struct xsk_app *app)
{
	uint64_t count = app->trial->generator.count;

	for (size_t i = 0; i < app->len; i++) {
		struct xsk *xsk = &app->sockets[i];
		uint64_t packets = count / app->len + (i < count % app->len);

		xsk->left = count ? packets * xsk->pieces : UINT64_MAX;
	}
}

static int check_frame(const struct xsk_app *app, const struct link *link)
{
	int frame_len = app->trial->generator.frame.frame_len;
	int max = link->mtu + ETH_HLEN;

	if (!app->loop->transmits)
		return 0;
	if (frame_len > max)
		return fail_usage("spec", "frame.frame_len",
				  "%d is not at most %d, the MTU of %s plus %d", frame_len, max,
				  link->ifname, ETH_HLEN);
	if (frame_len > app->spec->frame_size && !app->spec->frags)
		return fail_usage("spec", "frame.frame_len",
				  "%d is not at most %d, which is xsk.frame_size; xsk.frags takes "
				  "several",
				  frame_len, app->spec->frame_size);
	return 0;
}

/* The kernel binds to a queue that only receives, too, and then sends by none. */
static int check_queues(const struct xsk_app *app, const struct link *link)
{
	unsigned int queues = port_tx_queues(link);

	for (size_t i = 0; app->loop->sends && i < app->spec->queues_len; i++)
		if ((unsigned int)app->spec->queues[i] >= queues &&
		    (unsigned int)app->spec->queues[i] < port_rx_queues(link))
			return fail_hint(fail_because(0, link->ifname, "check",
						      "queue %d cannot send: the port has %u "
						      "transmit queues",
						      app->spec->queues[i], queues),
					 "ethtool -L %s, with as many to transmit as to receive",
					 link->ifname);
	return 0;
}

static int set_up(struct xsk_app *app, const struct port *port)
{
	int result = check_frame(app, &port->link);

	if (!result)
		result = check_queues(app, &port->link);
	if (!result)
		result = create_umems(app);
	if (!result)
		result = create_sockets(app, port);
	if (!result && app->spec->wakeup == WAKEUP_BUSY_POLL)
		result = napi_settings_hold(&app->napi, app->trial->ifname);
	if (result)
		return result;
	deal_out(app);
	set_shares(app);
	return 0;
}

int xsk_app_create(const struct spec *spec, struct port *port, const struct xsk_loop *loop,
		   struct app **app)
{
	struct xsk_app *own = aligned_alloc(_Alignof(struct xsk_app), sizeof(*own));
	int result;

	if (!own)
		return fail(ENOMEM, spec->ifname, "make sockets");
	memset(own, 0, sizeof(*own));
	own->trial = spec;
	own->spec = &spec->xsk;
	own->loop = loop;
	own->napi = (struct napi_settings)NAPI_SETTINGS_NONE;
	own->ended_fd = eventfd(0, EFD_CLOEXEC);
	sem_init(&own->go, 0, 0);
	result = own->ended_fd < 0 ? fail(errno, spec->ifname, "eventfd") : set_up(own, port);
	if (result)
		xsk_app_destroy((struct app *)own);
	else
		*app = (struct app *)own;
	return result;
}

static bool is_plain(const struct xsk_app *app)
{
	return !app->spec->unaligned && !app->spec->frags;
}

static void say_ended(struct xsk_app *app)
{
	uint64_t one = 1;
	ssize_t n;

	if (__atomic_sub_fetch(&app->running, 1, __ATOMIC_ACQ_REL))
		return;
	n = write(app->ended_fd, &one, sizeof(one));
	(void)n;
}

static void wait_for_go(struct xsk_app *app)
{
	int64_t window = app->trial->generator.window;

	while (sem_wait(&app->go))
		continue; /* interrupted */
	if (window != NO_WINDOW && !xsk_stopping(&app->threads[0]))
		window_open(window);
}

static void *run_thread(void *argument)
{
	struct xsk_thread *thread = argument;
	struct xsk_app *app = thread->app;
	const struct xsk_loop *loop = app->loop;

	if (loop->transmits)
		wait_for_go(app);
	if ((is_plain(app) ? loop->plain : loop->general)(thread)) {
		thread->failed = failure;
		__atomic_store_n(&thread->ended_early, true, __ATOMIC_RELEASE);
	}
	if (loop->transmits)
		say_ended(app);
	return NULL;
}

int xsk_app_start(struct app *app)
{
	struct xsk_app *own = (struct xsk_app *)app;
	int result = 0;

	own->running = own->threads_len;
	for (size_t i = 0; !result && i < own->threads_len; i++) {
		struct xsk_thread *thread = &own->threads[i];

		result = thread_start(&thread->thread, "xsk.app_cpus", thread->cpu, run_thread,
				      thread);
		thread->started = !result;
	}
	return result;
}

void xsk_app_go(struct app *app)
{
	struct xsk_app *own = (struct xsk_app *)app;

	for (size_t i = 0; i < own->threads_len; i++)
		sem_post(&own->go);
}

int xsk_app_ended_fd(const struct app *app)
{
	return ((const struct xsk_app *)app)->ended_fd;
}

/* Threads that wait for go() end, too. */
void xsk_app_stop(struct app *app)
{
	struct xsk_app *own = (struct xsk_app *)app;

	if (own->joined)
		return;
	__atomic_store_n(&own->stop, true, __ATOMIC_RELAXED);
	xsk_app_go(app);
	for (size_t i = 0; i < own->threads_len; i++)
		if (own->threads[i].started)
			pthread_join(own->threads[i].thread, NULL);
	own->joined = true;
}

void xsk_app_destroy(struct app *app)
{
	struct xsk_app *own = (struct xsk_app *)app;

	xsk_app_stop(app);
	napi_settings_put_back(&own->napi);
	while (own->len)
		xsk_destroy(&own->sockets[--own->len]);
	while (own->umems_len)
		umem_destroy(&own->umems[--own->umems_len]);
	if (own->ended_fd >= 0)
		close(own->ended_fd);
	sem_destroy(&own->go);
	free(own);
}

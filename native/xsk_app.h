/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_XSK_APP_H
#define XDPREPRO_XSK_APP_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

#include "app.h"
#include "error.h"
#include "napi_settings.h"
#include "xsk.h"

struct xsk_app;

/* One thread, and the sockets that it alone serves. */
struct xsk_thread {
	struct xsk_app *app;
	struct xsk *sockets[MAX_QUEUES];
	size_t len;
	int cpu;
	pthread_t thread;
	bool started;
	bool ended_early;
	struct failure failed; /* why */
};

/* What a thread does until it is to stop; a failure is told with fail(). */
struct xsk_loop {
	int (*plain)(struct xsk_thread *thread);   /* frames aligned and whole */
	int (*general)(struct xsk_thread *thread); /* all others */
	bool sends;                                /* has a TX ring */
	bool transmits;                            /* from go() to stop() */
};

struct xsk_app {
	struct xsk sockets[MAX_QUEUES];
	struct xsk_counters taken[MAX_QUEUES]; /* by the sampler */
	size_t len;
	struct xsk_queue queues[MAX_QUEUES];
	struct umem umems[MAX_QUEUES];
	size_t umems_len;
	struct xsk_thread threads[MAX_QUEUES];
	size_t threads_len;
	const struct spec *trial;
	const struct xsk_spec *spec;
	const struct xsk_loop *loop;
	struct napi_settings napi;
	sem_t go;
	bool stop;
	bool joined;
	size_t running; /* threads that transmit and have not ended */
	int ended_fd;   /* readable once they all have */
};

/* Operations of an application, all but create(), which names its loop. */
int xsk_app_create(const struct spec *spec, struct port *port, const struct xsk_loop *loop,
		   struct app **app);
int xsk_app_start(struct app *app);
void xsk_app_go(struct app *app);
int xsk_app_ended_fd(const struct app *app);
void xsk_app_stop(struct app *app);
int xsk_app_describe(const struct app *app, json_t *ready);
void xsk_app_add_sources(struct app *app, struct sampler *sampler);
void xsk_app_destroy(struct app *app);

/* The operations of an application that receives, as `const struct app_ops NAME`. */
#define XSK_APP(NAME, LOOP)                                                                    \
	static int NAME##_create(const struct spec *spec, struct port *port, struct app **app) \
	{                                                                                      \
		return xsk_app_create(spec, port, &(LOOP), app);                               \
	}                                                                                      \
	const struct app_ops NAME = {                                                          \
		.create = NAME##_create,                                                       \
		.start = xsk_app_start,                                                        \
		.describe = xsk_app_describe,                                                  \
		.add_sources = xsk_app_add_sources,                                            \
		.destroy = xsk_app_destroy,                                                    \
	}

extern const struct app_ops xsk_rxdrop;
extern const struct app_ops xsk_rxdrop_swap_macs;
extern const struct app_ops xsk_l2fwd_swap_macs;
extern const struct app_ops xsk_txonly;

static inline bool xsk_stopping(const struct xsk_thread *thread)
{
	return __atomic_load_n(&thread->app->stop, __ATOMIC_RELAXED);
}

/* Nothing came: wake the kernel, as the way of waking has it. */
void xsk_idle(struct xsk *xsk, int wakeup);

/* Nothing came on any socket: sleep in poll(), where that is the way of waking. */
void xsk_sleep(struct xsk_thread *thread);

#endif

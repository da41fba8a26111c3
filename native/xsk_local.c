// SPDX-License-Identifier: GPL-2.0-or-later
/* An AF_XDP application that hands packets to the stack, by sockets at the other end of a pair. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "local.h"
#include "local_pair.h"
#include "promiscuous.h"
#include "xsk_loop.h"

XSK_LOOP(local_swap_macs, xsk_serve_l2fwd, true, xsk_swap_macs);

/* A socket to send from what another one received: the same memory, registered once more. */
struct injector {
	struct umem umem;
	struct xsk_queue queue;
	struct xsk xsk;
	bool created;
};

struct local_app {
	struct app *xsk;
	struct local_pair pair;
	struct injector injectors[MAX_QUEUES];
	struct xsk_spec spec; /* of the injectors */
	int promiscuous_fd;
};

static void destroy(struct app *app)
{
	struct local_app *own = (struct local_app *)app;

	if (own->xsk)
		xsk_app_stop(own->xsk);
	for (size_t i = 0; i < MAX_QUEUES; i++)
		if (own->injectors[i].created)
			xsk_destroy(&own->injectors[i].xsk);
	if (own->xsk)
		xsk_app_destroy(own->xsk);
	local_pair_destroy(&own->pair);
	if (own->promiscuous_fd >= 0)
		close(own->promiscuous_fd);
	free(own);
}

/* What the loop sends goes to the injector's rings; its own are left alone. */
static int inject(struct local_app *own, struct xsk *xsk, int queue_id)
{
	struct injector *injector = &own->injectors[queue_id];
	int result;

	injector->umem = *xsk->queue->umem;
	injector->umem.fd = -1;
	injector->queue = (struct xsk_queue){
		.fd = -1,
		.umem = &injector->umem,
		.queue_id = queue_id,
	};
	result = xsk_create(&injector->xsk, own->pair.inner_ifname, &injector->queue, 0, true,
			    &own->spec);
	if (result)
		return result;
	injector->created = true;
	xsk->tx = injector->xsk.tx;
	xsk->tx_fd = injector->xsk.fd;
	xsk->queue->completion = injector->queue.completion;
	return 0;
}

static int inject_all(struct local_app *own)
{
	struct xsk_app *app = (struct xsk_app *)own->xsk;
	int result = local_pair_enter(&own->pair), left;

	if (result)
		return result;
	for (size_t i = 0; !result && i < app->len; i++)
		result = inject(own, &app->sockets[i], i);
	left = local_pair_leave(&own->pair);
	return result ? result : left;
}

static int set_up(struct local_app *own, const struct spec *spec, struct port *port)
{
	int result = 0;

	if (spec->xsk.sockets > 1)
		return fail_usage("spec", "xsk.sockets",
				  "%d is not 1, as in all cases of this kind", spec->xsk.sockets);
	own->promiscuous_fd = promiscuous_open(&port->link);
	if (own->promiscuous_fd < 0)
		return fail_result();
	result = local_pair_create(&own->pair, spec->xsk.queues_len, port->link.mtu);
	if (!result)
		result = xsk_app_create(spec, port, &local_swap_macs, &own->xsk);
	if (result)
		return result;
	/* veth has no zero-copy, and its queues are not polled. */
	own->spec = spec->xsk;
	own->spec.bind_mode = BIND_COPY;
	if (own->spec.wakeup == WAKEUP_BUSY_POLL)
		own->spec.wakeup = WAKEUP_NEED_WAKEUP;
	return inject_all(own);
}

static int create(const struct spec *spec, struct port *port, struct app **app)
{
	struct local_app *own = aligned_alloc(_Alignof(struct local_app), sizeof(*own));
	int result;

	if (!own)
		return fail(ENOMEM, spec->ifname, "make sockets");
	memset(own, 0, sizeof(*own));
	own->pair = (struct local_pair)LOCAL_PAIR_NONE;
	own->promiscuous_fd = -1;
	result = set_up(own, spec, port);
	if (result)
		destroy((struct app *)own);
	else
		*app = (struct app *)own;
	return result;
}

static int start(struct app *app)
{
	return xsk_app_start(((struct local_app *)app)->xsk);
}

static int describe(const struct app *app, json_t *ready)
{
	const struct local_app *own = (const struct local_app *)app;
	const struct xsk_app *xsk = (const struct xsk_app *)own->xsk;
	struct link port;
	int result = link_read(xsk->trial->ifname, &port);

	if (result)
		return result;
	json_object_set_new(ready, "local",
			    json_pack("{s:s, s:i}", "ifname", own->pair.stack.ifname, "promiscuity",
				      (int)port.promiscuity));
	return xsk_app_describe(own->xsk, ready);
}

static int read_injectors(const void *context, struct counters *counters)
{
	const struct local_app *own = context;
	int result = 0;

	for (size_t i = 0; !result && i < MAX_QUEUES; i++)
		if (own->injectors[i].created)
			result = xsk_read_statistics(&own->injectors[i].xsk, counters);
	return result;
}

static void add_sources(struct app *app, struct sampler *sampler)
{
	struct local_app *own = (struct local_app *)app;

	xsk_app_add_sources(own->xsk, sampler);
	sampler_add(sampler, (struct source){"local_netdev", netdev_take, netdev_read,
					     &own->pair.stack, .cheap = false});
	sampler_add(sampler, (struct source){"local_xsk", .read = read_injectors, .context = own});
	sampler_add(sampler, (struct source){"snmp", .read = snmp_read});
}

const struct app_ops xsk_local_swap_macs = {
	.create = create,
	.start = start,
	.describe = describe,
	.add_sources = add_sources,
	.destroy = destroy,
};

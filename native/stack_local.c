// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "error.h"
#include "local.h"
#include "promiscuous.h"

struct stack_app {
	const struct port *port;
	int promiscuous_fd;
};

static int create(const struct spec *spec, struct port *port, struct app **app)
{
	struct stack_app *own = malloc(sizeof(*own));

	if (!own)
		return fail(ENOMEM, spec->ifname, "create");
	own->port = port;
	own->promiscuous_fd = promiscuous_open(&port->link);
	*app = (struct app *)own;
	if (own->promiscuous_fd >= 0)
		return 0;
	free(own);
	return fail_result();
}

static int start(struct app *app)
{
	(void)app;
	return 0;
}

static int describe(const struct app *app, json_t *ready)
{
	const struct stack_app *own = (const struct stack_app *)app;
	struct link now;
	int result = link_read(own->port->link.ifname, &now);

	if (!result)
		json_object_set_new(ready, "local",
				    json_pack("{s:s, s:i}", "ifname", now.ifname, "promiscuity",
					      (int)now.promiscuity));
	return result;
}

/* Packets that the stack took further than it should are in here. */
static void add_sources(struct app *app, struct sampler *sampler)
{
	(void)app;
	sampler_add(sampler, (struct source){"snmp", .read = snmp_read});
}

static void destroy(struct app *app)
{
	struct stack_app *own = (struct stack_app *)app;

	close(own->promiscuous_fd);
	free(own);
}

const struct app_ops stack_local = {
	.create = create,
	.start = start,
	.describe = describe,
	.add_sources = add_sources,
	.destroy = destroy,
};

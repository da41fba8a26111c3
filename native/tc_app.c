// SPDX-License-Identifier: GPL-2.0-or-later
#include "tc_app.h"

#include <errno.h>
#include <linux/pkt_cls.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "cases_packet.h"
#include "error.h"
#include "records.h"
#include "tc_hook.h"

struct tc_app {
	struct loaded program;
	struct records records;
	struct tc_hook hook;
	unsigned int prog_id;
	char prog_name[BPF_OBJ_NAME_LEN];
};

static const struct {
	int action;
	const char *name;
} actions[] = {{TC_ACT_SHOT, "TC_ACT_SHOT"}, {TC_ACT_REDIRECT, "TC_ACT_REDIRECT"}};

#define ACTIONS (sizeof(actions) / sizeof(actions[0]))

static int load_program(struct tc_app *app, const struct spec *spec, const struct port *port)
{
	bool redirects = spec->test_case == &cases_packet[TC_REDIRECT];
	const struct program *program =
		redirects ? PROGRAM(tc_redirect_swap_macs, tc_redirect_swap_macs)
			  : PROGRAM(tc_drop_no_touch, tc_drop_no_touch);
	struct link egress = port->link;
	struct redirect_knobs knobs;
	struct load_options options = {.one_queue = port_rx_queues(&port->link) == 1};
	int result = spec->egress_ifname[0] ? link_read(spec->egress_ifname, &egress) : 0;

	if (result)
		return result;
	knobs.egress_ifindex = egress.ifindex;
	if (redirects) {
		options.knobs = &knobs;
		options.knobs_size = sizeof(knobs);
	}
	return loaded_create(&app->program, program, &options);
}

static int map_records(struct tc_app *app, const struct port *port)
{
	unsigned int cpus;
	int result = port_cpu_numbers(&cpus);

	return result ? result
		      : records_create(&app->records, &app->program, cpus, port->link.rx_queues);
}

static void destroy(struct app *handle)
{
	struct tc_app *app = (struct tc_app *)handle;

	tc_hook_destroy(&app->hook);
	records_destroy(&app->records);
	loaded_destroy(&app->program);
	free(app);
}

static int create(const struct spec *spec, struct port *port, struct app **handle)
{
	struct tc_app *app = calloc(1, sizeof(*app));
	int result;

	if (!app)
		return fail(ENOMEM, spec->ifname, "make TC program");
	*handle = (struct app *)app;
	result = load_program(app, spec, port);
	if (!result)
		result = map_records(app, port);
	if (!result)
		result = tc_hook_create(&app->hook, &port->link, app->program.fd);
	if (result)
		destroy(*handle);
	return result;
}

static int start(struct app *handle)
{
	struct tc_app *app = (struct tc_app *)handle;
	struct bpf_prog_info info;
	__u64 jited_addr;
	int err = read_program_info(app->program.fd, &info, &jited_addr);

	app->prog_id = info.id;
	memcpy(app->prog_name, info.name, sizeof(app->prog_name));
	return err ? fail(-err, app->hook.link->ifname, "read program") : 0;
}

static int describe(const struct app *handle, json_t *ready)
{
	const struct tc_app *app = (const struct tc_app *)handle;
	unsigned int prog_id = tc_hook_program(&app->hook);
	json_t *object = loaded_describe(&app->program);

	if (prog_id != app->prog_id) {
		json_decref(object);
		return fail_because(0, app->hook.link->ifname, "verify",
				    "program %u is at TC ingress, not program %u", prog_id,
				    app->prog_id);
	}
	json_object_set_new(object, "hook", json_string("ingress"));
	json_object_set_new(object, "prog_id", json_integer(prog_id));
	json_object_set_new(object, "prog_name", json_string(app->prog_name));
	return json_object_set_new(ready, "tc", object)
		       ? fail(ENOMEM, app->hook.link->ifname, "describe TC program")
		       : 0;
}

static int take(void *context)
{
	struct records *records = &((struct tc_app *)context)->records;

	for (unsigned int cpu = 0; cpu < records->cpus; cpu++)
		for (unsigned int rxq = 0; rxq < records->rxqs; rxq++)
			for (size_t i = 0; i < ACTIONS; i++)
				records->taken[cpu * records->per_cpu + rxq]
					.packets[actions[i].action] =
					records_load(&records_find(records, cpu, rxq)
							      ->packets[actions[i].action]);
	return 0;
}

static int read_record(const struct record *taken, unsigned int cpu, unsigned int rxq,
		       struct counters *counters)
{
	int result = 0;

	for (size_t i = 0; !result && i < ACTIONS; i++)
		if (taken->packets[actions[i].action])
			result = counters_set(counters, taken->packets[actions[i].action],
					      "cpu%u.rxq%u.%s.packets", cpu, rxq, actions[i].name);
	return result;
}

static int read_records(const void *context, struct counters *counters)
{
	const struct records *records = &((const struct tc_app *)context)->records;
	int result = 0;

	for (unsigned int cpu = 0; cpu < records->cpus; cpu++)
		for (unsigned int rxq = 0; !result && rxq < records->rxqs; rxq++)
			result = read_record(&records->taken[cpu * records->per_cpu + rxq], cpu,
					     rxq, counters);
	return result;
}

static void add_sources(struct app *app, struct sampler *sampler)
{
	sampler_add(sampler, (struct source){"tc_prog", take, read_records, app, .cheap = true});
}

const struct app_ops tc_ops = {
	.create = create,
	.start = start,
	.describe = describe,
	.add_sources = add_sources,
	.destroy = destroy,
};

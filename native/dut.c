// SPDX-License-Identifier: GPL-2.0-or-later
/* The roles `sink`, `forward` and `transmit`: the device under test. */
#include <errno.h>

#include "app.h"
#include "command.h"
#include "drain.h"
#include "dut_port.h"
#include "error.h"
#include "measure.h"
#include "observers.h"
#include "out.h"
#include "trial.h"
#include "xdp_case.h"

struct dut {
	const struct spec *spec;
	struct port port;
	struct link egress;
	struct sampler sampler;
	struct observers observers;
	const struct app_ops *ops; /* NULL: packets end in the kernel */
	struct app *app;
	int ended_fd; /* readable once all is sent; -1: no end is awaited */
	bool sending;
};

static int say_stopped(struct dut *dut)
{
	dut->sending = false;
	dut->ended_fd = -1;
	return out_line(json_pack("{s:b}", "stopped", 1));
}

/* Like command_wait(), and an application that ends by itself is told meanwhile. */
static int wait_for_dut(void *context, int64_t at_ns, enum command *next)
{
	struct dut *dut = context;
	int result;

	do {
		result = command_wait(at_ns, dut->ended_fd, next);
		if (!result && *next == COMMAND_EVENT)
			result = say_stopped(dut);
	} while (!result && *next == COMMAND_EVENT);
	return result;
}

static void go(struct dut *dut)
{
	if (!dut->ops || !dut->ops->go)
		return;
	if (dut->ops->ended_fd)
		dut->ended_fd = dut->ops->ended_fd(dut->app);
	dut->sending = true;
	dut->ops->go(dut->app);
}

static int measure_port(struct dut *dut, enum command *next)
{
	/* The tester's link went down after we were ready, and then ours at the same cable. */
	int result = port_wait_for_carrier(&dut->port);

	if (result)
		return result;
	go(dut);
	return measure(&dut->sampler, dut->spec, wait_for_dut, dut, next);
}

static int stop(struct dut *dut)
{
	int64_t took_ns;
	int result = 0;

	if (dut->sending) {
		dut->ops->stop(dut->app);
		result = say_stopped(dut);
	}
	if (!result)
		result = drain(&dut->sampler, dut->spec->interval_ns, &took_ns);
	if (!result)
		result = out_line(
			json_pack("{s:b, s:I}", "drained", 1, "drain_ns", (json_int_t)took_ns));
	return result;
}

static int describe_app(const struct dut *dut, json_t **ready)
{
	int result;

	*ready = json_object();
	result = observers_describe(&dut->observers, &dut->port, *ready);
	if (!result && dut->app)
		result = dut->ops->describe(dut->app, *ready);
	if (!result)
		result = xdp_case_describe(&dut->port.program, dut->spec, *ready);
	if (!result && dut->port.work)
		json_object_set_new(*ready, "work",
				    work_describe(dut->port.work, &dut->port.program));
	if (result)
		json_decref(*ready);
	return result;
}

static int run(struct dut *dut)
{
	bool gone = false;
	enum command next;
	json_t *extra;
	int result = describe_app(dut, &extra);

	if (!result)
		result = trial_ready(&dut->port, &dut->sampler, extra);
	if (!result)
		result = wait_for_dut(dut, NO_DEADLINE, &next);
	while (!result && next != COMMAND_FINISH) {
		if (next == COMMAND_GO && !gone) {
			gone = true;
			result = measure_port(dut, &next);
			if (next != COMMAND_TIMEOUT)
				continue; /* a command came before the end */
		} else if (next == COMMAND_STOP) {
			result = stop(dut);
		} else {
			result = fail_usage("stdin", "command", "go, but it has gone already");
		}
		if (!result)
			result = wait_for_dut(dut, NO_DEADLINE, &next);
	}
	return result ? result : trial_done(&dut->port, &dut->sampler);
}

static int add_sources(struct dut *dut)
{
	int result = port_add_sources(&dut->port, &dut->sampler);

	if (dut->app)
		dut->ops->add_sources(dut->app, &dut->sampler);
	if (dut->port.work)
		sampler_add(&dut->sampler,
			    (struct source){"work", .read = work_read, .context = dut->port.work});
	if (!result)
		result = observers_add_sources(&dut->observers, dut->spec, &dut->port,
					       &dut->sampler);
	if (dut->egress.ifindex == dut->port.link.ifindex)
		return result;
	sampler_add(&dut->sampler, (struct source){"egress_netdev", netdev_take, netdev_read,
						   &dut->egress, .cheap = false});
	sampler_add(&dut->sampler, (struct source){"egress_ethtool", .read = ethtool_read,
						   .context = dut->egress.ifname});
	return result;
}

static int create_app(struct dut *dut)
{
	int result;

	if (!dut->ops)
		return 0;
	result = dut->ops->create(dut->spec, &dut->port, &dut->app);
	if (result)
		dut->app = NULL;
	return result ? result : dut->ops->start(dut->app);
}

int dut_run(const struct spec *spec)
{
	struct dut dut = {.spec = spec, .ops = spec->test_case->app, .ended_fd = -1};
	int result = sampler_create(&dut.sampler);

	if (result)
		return result;
	result = observers_create(&dut.observers, spec);
	if (result)
		goto destroy_sampler;
	result = dut_port_create(&dut.port, &dut.egress, spec);
	if (result)
		goto destroy_observers;
	/* The application first: a packet that comes before its socket would go elsewhere. */
	result = create_app(&dut);
	if (!result)
		result = add_sources(&dut);
	if (!result)
		result = port_attach(&dut.port, spec->attach_mode);
	if (!result)
		result = run(&dut);
	attachment_destroy(&dut.port.attachment);
	if (dut.app)
		dut.ops->destroy(dut.app);
	port_destroy(&dut.port);
destroy_observers:
	observers_destroy(&dut.observers);
destroy_sampler:
	sampler_destroy(&dut.sampler);
	return result;
}

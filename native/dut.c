// SPDX-License-Identifier: GPL-2.0-or-later
/* The roles `sink` and `forward`: the device under test. */
#include <errno.h>
#include <stdlib.h>

#include "../bpf/record.h"
#include "clock.h"
#include "command.h"
#include "drain.h"
#include "error.h"
#include "out.h"
#include "rxdrop.h"
#include "trial.h"

struct dut {
	const struct spec *spec;
	struct port port;
	struct link egress;
	struct sampler sampler;
	struct rxdrop *rxdrop; /* NULL unless packets go to sockets */
};

/* Wait for a time and sample; `next` is COMMAND_TIMEOUT unless a command came first. */
static int sample_at(struct dut *dut, const char *phase, int64_t at_ns, enum command *next)
{
	int result = command_wait(at_ns, -1, next);

	if (!result && *next == COMMAND_GO)
		result = fail_usage("stdin", "command", "go, but it is going already");
	if (!result && *next == COMMAND_TIMEOUT)
		result = sampler_sample(&dut->sampler, phase);
	return result;
}

/* Sample at a time and at every interval after it, until just before the other time. */
static int sample_phase(struct dut *dut, const char *phase, int64_t at_ns, int64_t end_ns,
			enum command *next)
{
	int result = 0;

	for (; !result && *next == COMMAND_TIMEOUT && at_ns < end_ns;
	     at_ns += dut->spec->interval_ns)
		result = sample_at(dut, phase, at_ns, next);
	return result;
}

static int measure(struct dut *dut, enum command *next)
{
	int64_t settle_ns, measure_ns, end_ns;
	/* The tester's link went down after we were ready, and then ours at the same cable. */
	int result = port_wait_for_carrier(&dut->port);

	settle_ns = now_ns();
	measure_ns = settle_ns + dut->spec->settle_ns;
	end_ns = measure_ns + dut->spec->measure_ns;
	*next = COMMAND_TIMEOUT;
	if (!result)
		result = sample_phase(dut, "settle", settle_ns, measure_ns, next);
	if (!result)
		result = sample_phase(dut, "measure", measure_ns, end_ns, next);
	if (!result && *next == COMMAND_TIMEOUT)
		result = sample_at(dut, "measure", end_ns, next);
	if (!result && *next == COMMAND_TIMEOUT)
		result = out_line(json_pack("{s:b}", "measured", 1));
	return result;
}

static int stop(struct dut *dut)
{
	int64_t took_ns;
	int result = drain(&dut->sampler, dut->spec->interval_ns, &took_ns);

	if (!result)
		result = out_line(
			json_pack("{s:b, s:I}", "drained", 1, "drain_ns", (json_int_t)took_ns));
	return result;
}

static int describe_sockets(const struct dut *dut, json_t **extra)
{
	json_t *list;
	int result;

	*extra = NULL;
	if (!dut->rxdrop)
		return 0;
	result = rxdrop_verify(dut->rxdrop, &list);
	if (!result)
		*extra = json_pack("{s:o}", "xsk", list);
	return result;
}

static int run(struct dut *dut)
{
	bool gone = false;
	enum command next;
	json_t *extra;
	int result = describe_sockets(dut, &extra);

	if (!result)
		result = trial_ready(&dut->port, &dut->sampler, extra);

	if (!result)
		result = command_wait(NO_DEADLINE, -1, &next);
	while (!result && next != COMMAND_FINISH) {
		if (next == COMMAND_GO && !gone) {
			gone = true;
			result = measure(dut, &next);
			if (next != COMMAND_TIMEOUT)
				continue; /* a command came before the end */
		} else if (next == COMMAND_STOP) {
			result = stop(dut);
		} else {
			result = fail_usage("stdin", "command", "go, but it has gone already");
		}
		if (!result)
			result = command_wait(NO_DEADLINE, -1, &next);
	}
	return result ? result : trial_done(&dut->port, &dut->sampler);
}

static int find_egress(struct dut *dut)
{
	const struct spec *spec = dut->spec;

	return link_read(spec->egress_ifname[0] ? spec->egress_ifname : spec->ifname, &dut->egress);
}

static int create_port(struct dut *dut)
{
	const struct test_case *test_case = dut->spec->test_case;
	struct redirect_knobs knobs = {.egress_ifindex = dut->egress.ifindex};
	bool knob = test_case->egress == EGRESS_KNOB;
	int result;

	result = port_create(&dut->port, dut->spec->ifname, test_case->program,
			     knob ? &knobs : NULL, sizeof(knobs));
	if (!result && test_case->egress == EGRESS_MAP) {
		result = loaded_set_map(&dut->port.program, "ports", 0, dut->egress.ifindex);
		if (result)
			port_destroy(&dut->port);
	}
	return result;
}

static int add_sources(struct dut *dut)
{
	int result = port_add_sources(&dut->port, &dut->sampler);

	if (dut->rxdrop) {
		sampler_add(&dut->sampler, (struct source){"xsk_app", rxdrop_take, rxdrop_read,
							   dut->rxdrop, .cheap = true});
		sampler_add(&dut->sampler, (struct source){"xsk", .read = rxdrop_read_statistics,
							   .context = dut->rxdrop});
	}
	if (dut->egress.ifindex == dut->port.link.ifindex)
		return result;
	sampler_add(&dut->sampler, (struct source){"egress_netdev", netdev_take, netdev_read,
						   &dut->egress, .cheap = false});
	sampler_add(&dut->sampler, (struct source){"egress_ethtool", .read = ethtool_read,
						   .context = dut->egress.ifname});
	return result;
}

static int create_sockets(struct dut *dut)
{
	int result;

	if (!dut->spec->test_case->sockets)
		return 0;
	dut->rxdrop = aligned_alloc(128, sizeof(*dut->rxdrop));
	if (!dut->rxdrop)
		return fail(ENOMEM, dut->spec->ifname, "make sockets");
	result = rxdrop_create(dut->rxdrop, dut->spec->ifname, &dut->spec->xsk, &dut->port.program);
	if (!result)
		return rxdrop_start(dut->rxdrop);
	free(dut->rxdrop);
	dut->rxdrop = NULL;
	return result;
}

static void destroy_sockets(struct dut *dut)
{
	if (dut->rxdrop)
		rxdrop_destroy(dut->rxdrop);
	free(dut->rxdrop);
}

int dut_run(const struct spec *spec)
{
	struct dut dut = {.spec = spec};
	int result = sampler_create(&dut.sampler);

	if (result)
		return result;
	result = find_egress(&dut);
	if (!result)
		result = create_port(&dut);
	if (result)
		goto destroy_sampler;
	/* Sockets first: a packet that comes before its socket would be passed to the stack. */
	result = create_sockets(&dut);
	if (!result)
		result = add_sources(&dut);
	if (!result)
		result = port_attach(&dut.port, spec->attach_mode);
	if (!result)
		result = run(&dut);
	attachment_destroy(&dut.port.attachment);
	destroy_sockets(&dut);
	port_destroy(&dut.port);
destroy_sampler:
	sampler_destroy(&dut.sampler);
	return result;
}

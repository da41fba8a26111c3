// SPDX-License-Identifier: GPL-2.0-or-later
#include "trial.h"

#include <errno.h>

#include "clock.h"
#include "command.h"
#include "error.h"
#include "load.h"
#include "napi_settings.h"
#include "out.h"
#include "thread.h"

int trial_ready(const struct port *port, const struct sampler *sampler, json_t *extra)
{
	json_t *attach = NULL;
	json_t *line;
	int result = attachment_verify(&port->attachment, &attach);

	if (!result)
		result = port_wait_for_carrier(port);
	if (!result)
		result = sampler_edge(sampler, "start");
	if (result) {
		json_decref(attach);
		json_decref(extra);
		return result;
	}
	line = json_pack("{s:b, s:I, s:I, s:o*}", "ready", 1, "t_mono_raw_ns",
			 (json_int_t)stamp_ns(), "t_realtime_ns",
			 (json_int_t)clock_ns(CLOCK_REALTIME), "attach", attach);
	if (extra && json_object_update(line, extra))
		result = fail(ENOMEM, "agent", "make a line");
	json_decref(extra);
	if (result)
		json_decref(line);
	return result ? result : out_line(line);
}

int trial_done(const struct port *port, const struct sampler *sampler)
{
	json_t *attach;
	int result = sampler_edge(sampler, "end");

	if (!result)
		result = port_verify_queues(port);
	if (!result)
		result = attachment_verify(&port->attachment, &attach);
	if (!result)
		result = out_line(json_pack("{s:b, s:o*}", "done", 1, "attach", attach));
	return result;
}

int trial_run(void)
{
	struct spec spec;
	char *line;
	int result = command_catch_signals();

	if (!result)
		result = command_read_line(&line);
	if (!result)
		result = spec_parse(line, &spec);
	if (!result)
		result = thread_pin_self("sampler_cpu", spec.sampler_cpu);
	if (result)
		return result;
	load_raise_memlock();
	switch (spec.role) {
	case ROLE_GENERATE:
		return generate_run(&spec);
	case ROLE_RING:
		return ring_run(&spec);
	default:
		result = napi_settings_mend(spec.ifname);
		return result ? result : dut_run(&spec);
	}
}

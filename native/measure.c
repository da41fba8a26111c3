// SPDX-License-Identifier: GPL-2.0-or-later
#include "measure.h"

#include "clock.h"
#include "error.h"
#include "out.h"

struct measurement {
	struct sampler *sampler;
	int64_t interval_ns;
	wait_for_command wait;
	void *context;
	enum command *next;
};

/* Wait for a time and sample; `next` is COMMAND_TIMEOUT unless a command came first. */
static int sample_at(const struct measurement *m, const char *phase, int64_t at_ns)
{
	int result = m->wait(m->context, at_ns, m->next);

	if (!result && *m->next == COMMAND_GO)
		result = fail_usage("stdin", "command", "go, but it is going already");
	if (!result && *m->next == COMMAND_TIMEOUT)
		result = sampler_sample(m->sampler, phase);
	return result;
}

/* Sample at a time and at every interval after it, until just before the other time. */
static int sample_phase(const struct measurement *m, const char *phase, int64_t at_ns,
			int64_t end_ns)
{
	int result = 0;

	for (; !result && *m->next == COMMAND_TIMEOUT && at_ns < end_ns; at_ns += m->interval_ns)
		result = sample_at(m, phase, at_ns);
	return result;
}

int measure(struct sampler *sampler, const struct spec *spec, wait_for_command wait, void *context,
	    enum command *next)
{
	const struct measurement m = {sampler, spec->interval_ns, wait, context, next};
	int64_t settle_ns = now_ns();
	int64_t measure_ns = settle_ns + spec->settle_ns;
	int64_t end_ns = measure_ns + spec->measure_ns;
	int result;

	*next = COMMAND_TIMEOUT;
	result = sample_phase(&m, "settle", settle_ns, measure_ns);
	if (!result)
		result = sample_phase(&m, "measure", measure_ns, end_ns);
	if (!result && *next == COMMAND_TIMEOUT)
		result = sample_at(&m, "measure", end_ns);
	if (!result && *next == COMMAND_TIMEOUT)
		result = out_line(json_pack("{s:b}", "measured", 1));
	return result;
}

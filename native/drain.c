// SPDX-License-Identifier: GPL-2.0-or-later
#include "drain.h"

#include <errno.h>
#include <string.h>

#include "clock.h"
#include "command.h"
#include "error.h"

#define STEP_NS (5 * NS_PER_MS)
#define STILL_NS (40 * NS_PER_MS)
#define BUDGET_NS (5 * NS_PER_S)

static int wait_undisturbed(int64_t deadline_ns)
{
	enum command command;
	int result = command_wait(deadline_ns, -1, &command);

	if (!result && command != COMMAND_TIMEOUT)
		result = fail_usage("stdin", "command", "a command before the drain is over");
	return result;
}

/* Other counters, of empty polls say, never stand still. */
static int count_packets(const struct sampler *sampler, uint64_t *packets)
{
	static const char suffix[] = "packets";
	json_t *counters = sampler_read(sampler);
	const char *name;
	json_t *value;

	*packets = 0;
	if (!counters)
		return fail_result();
	json_object_foreach(counters, name, value) {
		size_t len = strlen(name);

		if (len >= strlen(suffix) && !strcmp(name + len - strlen(suffix), suffix))
			*packets += json_integer_value(value);
	}
	json_decref(counters);
	return 0;
}

int drain(struct sampler *sampler, int64_t interval_ns, int64_t *took_ns)
{
	int64_t start_ns = now_ns(), moved_ns = start_ns, sample_ns = start_ns;
	uint64_t before, after;
	int result = count_packets(sampler, &before);

	while (!result && now_ns() - moved_ns < STILL_NS) {
		if (now_ns() >= sample_ns) {
			result = sampler_sample(sampler, "drain");
			sample_ns += interval_ns;
		}
		if (!result)
			result = wait_undisturbed(now_ns() + STEP_NS);
		if (!result)
			result = count_packets(sampler, &after);
		if (result)
			break;
		if (after != before)
			moved_ns = now_ns();
		before = after;
		if (moved_ns - start_ns > BUDGET_NS)
			result = fail_because(ETIMEDOUT, "counters", "drain",
					      "packets still come %lld s after the stop",
					      BUDGET_NS / NS_PER_S);
	}
	*took_ns = now_ns() - start_ns;
	return result ? result : sampler_sample(sampler, "drain");
}

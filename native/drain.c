// SPDX-License-Identifier: GPL-2.0-or-later
#include "drain.h"

#include <errno.h>

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

int drain(struct sampler *sampler, int64_t interval_ns, int64_t *took_ns)
{
	int64_t start_ns = now_ns(), moved_ns = start_ns, sample_ns = start_ns;
	json_t *before = sampler_read(sampler, false), *after = NULL;
	int result = before ? 0 : -EINVAL;

	while (!result && now_ns() - moved_ns < STILL_NS) {
		if (now_ns() >= sample_ns) {
			result = sampler_sample(sampler, "drain");
			sample_ns += interval_ns;
		}
		if (!result)
			result = wait_undisturbed(now_ns() + STEP_NS);
		if (result)
			break;
		after = sampler_read(sampler, false);
		if (!after)
			result = -EINVAL;
		else if (!json_equal(before, after))
			moved_ns = now_ns();
		json_decref(before);
		before = after;
		if (!result && moved_ns - start_ns > BUDGET_NS)
			result = fail_because(ETIMEDOUT, "counters", "drain",
					      "still moving %lld s after the stop",
					      BUDGET_NS / NS_PER_S);
	}
	json_decref(before);
	*took_ns = now_ns() - start_ns;
	return result ? result : sampler_sample(sampler, "drain");
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Prints an edge and a sample of a source that is slow to name what it took, and one of whose
 * counters JSON cannot carry.
 */
#include "clock.h"
#include "sample.h"

#define NAMING_NS (50 * NS_PER_MS)

static int take_nothing(void *unused)
{
	(void)unused;
	return 0;
}

static int read_slowly(const void *unused, struct counters *counters)
{
	int result = counters_set(counters, INT64_MAX, "largest");

	(void)unused;
	sleep_ns(NAMING_NS);
	if (!result)
		result = counters_set(counters, (uint64_t)INT64_MAX + 1, "too_large");
	return result ? result : counters_set(counters, 7, "next");
}

int main(void)
{
	struct sampler sampler;

	if (sampler_create(&sampler))
		return 1;
	sampler_add(&sampler, (struct source){"odd", take_nothing, read_slowly, .cheap = true});
	if (sampler_edge(&sampler, "start") || sampler_sample(&sampler, "settle"))
		return 1;
	sampler_destroy(&sampler);
	return 0;
}

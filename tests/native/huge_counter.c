// SPDX-License-Identifier: GPL-2.0-or-later
/* Prints an edge and a sample of a source with one counter that JSON cannot carry. */
#include "sample.h"

static int read_huge(const void *unused, struct counters *counters)
{
	int result = counters_set(counters, INT64_MAX, "largest");

	(void)unused;
	if (!result)
		result = counters_set(counters, (uint64_t)INT64_MAX + 1, "too_large");
	return result ? result : counters_set(counters, 7, "next");
}

int main(void)
{
	struct sampler sampler;

	if (sampler_create(&sampler))
		return 1;
	sampler_add(&sampler, (struct source){"ethtool", read_huge, NULL, .cheap = true});
	if (sampler_edge(&sampler, "start") || sampler_sample(&sampler, "settle"))
		return 1;
	sampler_destroy(&sampler);
	return 0;
}

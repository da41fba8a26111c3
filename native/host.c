// SPDX-License-Identifier: GPL-2.0-or-later
#include "host.h"

void host_add_sources(struct sampler *sampler)
{
	sampler_add(sampler, (struct source){"softirqs", .read = softirqs_read});
	sampler_add(sampler, (struct source){"interrupts", .read = interrupts_read});
	sampler_add(sampler, (struct source){"cpufreq", .read = cpufreq_read});
	sampler_add(sampler, (struct source){"thermal_throttle", .read = thermal_read});
	sampler_add(sampler, (struct source){"rapl", .read = rapl_read});
	sampler_add(sampler, (struct source){"resctrl", .read = resctrl_read});
}

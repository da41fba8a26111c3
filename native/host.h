/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_HOST_H
#define XDPREPRO_HOST_H

#include "counters.h"
#include "sample.h"

/* The sources of a whole machine, read at edges; each reader is one file. */
int softirqs_read(const void *unused, struct counters *counters);
int interrupts_read(const void *unused, struct counters *counters);
int threads_read(const void *unused, struct counters *counters);
int cpufreq_read(const void *unused, struct counters *counters);
int thermal_read(const void *unused, struct counters *counters);
int rapl_read(const void *unused, struct counters *counters);
int resctrl_read(const void *unused, struct counters *counters);

void host_add_sources(struct sampler *sampler);

#endif

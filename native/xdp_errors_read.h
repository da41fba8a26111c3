/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_XDP_ERRORS_READ_H
#define XDPREPRO_XDP_ERRORS_READ_H

#include "../bpf/observe.h"
#include "counters.h"

/* The map that the observer counts in, and a copy of it. */
struct observing {
	int fd;
	int cpus;
	__u32 cpumap;   /* 0: the trial has none */
	bool only_ours; /* what others in the system do is left out */
	struct observed *counts;
};

int observing_take(void *observing);
int observing_read_errors(const void *observing, struct counters *counters);
int observing_read_polls(const void *observing, struct counters *counters);

#endif

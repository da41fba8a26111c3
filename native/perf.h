/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_PERF_H
#define XDPREPRO_PERF_H

#include <stdbool.h>
#include <stdint.h>

/* What read(2) gives of a counter without others. */
struct perf_single {
	uint64_t len;
	uint64_t enabled_ns;
	uint64_t running_ns;
	uint64_t value;
};

/* A counter of one CPU, counting all that runs on it; a file descriptor or -errno, without fail().
 * `leader` is the first of its group, or -1. */
int perf_open(uint32_t type, uint64_t config, int cpu, int leader);

/* Of its result: there is no such CPU, or it is offline. */
bool perf_is_no_cpu(int result);

/* Each counter of each CPU takes a file descriptor: lift their limit as far as it goes. */
void perf_raise_files(void);

#endif

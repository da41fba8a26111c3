/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_CLOCK_H
#define XDPREPRO_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S 1000000000LL
#define NS_PER_MS 1000000LL

static inline int64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* Stamps are raw, untouched by NTP; only the adjusted clock can be slept on. */
static inline int64_t stamp_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC_RAW);
}

static inline int64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline void sleep_ns(int64_t ns)
{
	struct timespec ts = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};

	nanosleep(&ts, NULL);
}

#endif

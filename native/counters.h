/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_COUNTERS_H
#define XDPREPRO_COUNTERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Where a source puts what it read. */
struct counters {
	json_t *object;
	const char *source;
	json_t *absent; /* of an edge; NULL in a sample, whose counters have the source in front */
};

/*
 * A value above 2^63 - 1 would be negative for jansson and other readers of JSON: it is left out,
 * and an edge says so.
 */
int counters_set(struct counters *counters, uint64_t value, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* One counter of a source that has others, and why it is not there; an edge says so. */
int counters_leave_out(struct counters *counters, const char *reason, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * One place that counters come from. Taking them copies them to plain memory of the context, which
 * is all that is done between the stamps; reading then names what was taken. A source that is read
 * at edges alone may do all in `read`. What fails says with fail() why the source is absent.
 */
struct source {
	const char *name;
	int (*take)(void *context); /* NULL: `read` does it */
	int (*read)(const void *context, struct counters *counters);
	void *context;
	bool cheap; /* may be taken while packets are measured */
};

/* The sources that every machine or port may have; each is one file. */
int netdev_take(void *link);
int netdev_read(const void *link, struct counters *counters);
int ethtool_read(const void *ifname, struct counters *counters);
int softnet_read(const void *unused, struct counters *counters);
int proc_stat_read(const void *unused, struct counters *counters);
int snmp_read(const void *unused, struct counters *counters);

#endif

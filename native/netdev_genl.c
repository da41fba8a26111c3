// SPDX-License-Identifier: GPL-2.0-or-later
/* What the netlink family `netdev` counts: by queue of a port, and by page pool. */
#include <errno.h>

#include "error.h"
#include "genl.h"
#include "link.h"
#include "port_counters.h"

/* Since Linux 6.8 (page pools) and 6.9 (queues): newer than the headers of Debian 12. */
#define FAMILY "netdev"
enum { CMD_PAGE_POOL_GET = 5, CMD_PAGE_POOL_STATS_GET = 9, CMD_QSTATS_GET = 12 };
enum { QSTATS_IFINDEX = 1, QSTATS_QUEUE_TYPE, QSTATS_QUEUE_ID, QSTATS_SCOPE, QSTATS_FIRST = 8 };
enum { POOL_IFINDEX = 2, POOL_FIRST = 4 };
enum { POOL_STATS_INFO = 1, POOL_STATS_FIRST = 8 };
#define SCOPE_QUEUE 1

/* Names are those of Documentation/netlink/specs/netdev.yaml, in the order of their numbers. */
static const char *const queue_names[] = {
	"rx_packets",
	"rx_bytes",
	"tx_packets",
	"tx_bytes",
	"rx_alloc_fail",
	"rx_hw_drops",
	"rx_hw_drop_overruns",
	"rx_csum_complete",
	"rx_csum_unnecessary",
	"rx_csum_none",
	"rx_csum_bad",
	"rx_hw_gro_packets",
	"rx_hw_gro_bytes",
	"rx_hw_gro_wire_packets",
	"rx_hw_gro_wire_bytes",
	"rx_hw_drop_ratelimits",
	"tx_hw_drops",
	"tx_hw_drop_errors",
	"tx_csum_none",
	"tx_needs_csum",
	"tx_hw_gso_packets",
	"tx_hw_gso_bytes",
	"tx_hw_gso_wire_packets",
	"tx_hw_gso_wire_bytes",
	"tx_hw_drop_ratelimits",
	"tx_stop",
	"tx_wake",
	NULL,
};
static const char *const pool_names[] = {"inflight", "inflight_mem", NULL};
static const char *const pool_stats_names[] = {
	"alloc_fast",   "alloc_slow",        "alloc_slow_high_order",   "alloc_empty",
	"alloc_refill", "alloc_waive",       "recycle_cached",          "recycle_cache_full",
	"recycle_ring", "recycle_ring_full", "recycle_released_refcnt", NULL,
};

struct keeping {
	const struct link *link;
	struct counters *counters;
	int pools; /* so far; the kernel's own numbers are new with each program */
};

static int keep_named(const struct genl_answer *answer, const char *const *names, int first,
		      struct counters *counters, const char *prefix, unsigned int number)
{
	uint64_t value;
	int result = 0;

	for (int i = 0; !result && names[i]; i++)
		if (genl_number(answer, first + i, &value))
			result = counters_set(counters, value, "%s%u.%s", prefix, number, names[i]);
	return result;
}

static int keep_queue(const struct genl_answer *answer, void *context)
{
	const struct keeping *keeping = context;
	uint64_t type, queue;

	if (!genl_number(answer, QSTATS_QUEUE_TYPE, &type) ||
	    !genl_number(answer, QSTATS_QUEUE_ID, &queue))
		return 0;
	return keep_named(answer, queue_names, QSTATS_FIRST, keeping->counters, type ? "tx" : "rx",
			  queue);
}

/* A pool without a port belongs to a device that is gone, or to none. */
static bool is_of_port(const struct genl_answer *answer, const struct keeping *keeping)
{
	uint64_t ifindex;

	return genl_number(answer, POOL_IFINDEX, &ifindex) &&
	       ifindex == (uint64_t)keeping->link->ifindex;
}

static int keep_pool(const struct genl_answer *answer, void *context)
{
	struct keeping *keeping = context;

	if (!is_of_port(answer, keeping))
		return 0;
	return keep_named(answer, pool_names, POOL_FIRST, keeping->counters, "pool",
			  keeping->pools++);
}

static int keep_pool_stats(const struct genl_answer *answer, void *context)
{
	struct keeping *keeping = context;
	struct genl_answer info;

	if (!genl_nested(answer, POOL_STATS_INFO, &info) || !is_of_port(&info, keeping))
		return 0;
	return keep_named(answer, pool_stats_names, POOL_STATS_FIRST, keeping->counters, "pool",
			  keeping->pools++);
}

/* Drivers that leave the port out of their pools' parameters, such as veth, hide them. */
static int fail_no_pool(const struct link *link, const char *step)
{
	return fail_because(ENOENT, link->ifname, step, "no page pool names this port");
}

static int dump(const struct link *link, const struct genl_question *question,
		int (*keep)(const struct genl_answer *answer, void *context),
		struct counters *counters, const char *step)
{
	struct keeping keeping = {.link = link, .counters = counters};
	int err = genl_dump(question, keep, &keeping);

	if (err == -ENOENT)
		return fail_because(ENOENT, link->ifname, step, "the kernel has no family netdev");
	if (err)
		return fail(-err, link->ifname, step);
	return keep == keep_queue || keeping.pools ? 0 : fail_no_pool(link, step);
}

int netdev_queues_read(const void *link, struct counters *counters)
{
	const struct link *port = link;
	const struct genl_question question = {
		FAMILY,
		CMD_QSTATS_GET,
		{QSTATS_IFINDEX, QSTATS_SCOPE},
		{port->ifindex, SCOPE_QUEUE},
	};

	return dump(port, &question, keep_queue, counters, "netdev qstats-get");
}

int page_pool_read(const void *link, struct counters *counters)
{
	const struct genl_question question = {FAMILY, CMD_PAGE_POOL_GET, {0}, {0}};

	return dump(link, &question, keep_pool, counters, "netdev page-pool-get");
}

int page_pool_stats_read(const void *link, struct counters *counters)
{
	const struct genl_question question = {FAMILY, CMD_PAGE_POOL_STATS_GET, {0}, {0}};

	return dump(link, &question, keep_pool_stats, counters, "netdev page-pool-stats-get");
}

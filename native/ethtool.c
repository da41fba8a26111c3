// SPDX-License-Identifier: GPL-2.0-or-later
#include "ethtool.h"

#include <errno.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "counters.h"
#include "error.h"

/*
 * Old kernels do not look at the length of the buffer: where the number of counters grows
 * between two requests (more channels), they write as many as there are by then. Memory that is
 * not touched costs nothing.
 */
#define SLACK 16384
#define TRIES 5

int ethtool_ioctl(const char *ifname, void *request)
{
	struct ifreq ifreq = {.ifr_data = request};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = 0;

	if (fd < 0)
		return -errno;
	strncpy(ifreq.ifr_name, ifname, sizeof(ifreq.ifr_name) - 1);
	if (ioctl(fd, SIOCETHTOOL, &ifreq))
		err = -errno;
	close(fd);
	return err;
}

static int count_strings(const char *ifname, __u32 set, __u32 *len)
{
	struct {
		struct ethtool_sset_info info;
		__u32 len;
	} request = {.info = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ULL << set}};
	int err = ethtool_ioctl(ifname, &request);

	if (!err && !request.info.sset_mask)
		err = -EOPNOTSUPP;
	*len = request.len;
	return err;
}

struct ethtool_gstrings *ethtool_strings(const char *ifname, __u32 set)
{
	struct ethtool_gstrings *strings;
	__u32 len;
	int err = count_strings(ifname, set, &len);

	if (err) {
		errno = -err;
		return NULL;
	}
	strings = calloc(1, sizeof(*strings) + ((size_t)len + SLACK) * ETH_GSTRING_LEN);
	if (!strings)
		return NULL;
	strings->cmd = ETHTOOL_GSTRINGS;
	strings->string_set = set;
	strings->len = len;
	err = ethtool_ioctl(ifname, strings);
	if (!err && strings->len != len)
		err = -EAGAIN;
	if (!err)
		return strings;
	free(strings);
	errno = -err;
	return NULL;
}

static int keep_stats(const struct ethtool_gstrings *strings, const struct ethtool_stats *stats,
		      struct counters *counters)
{
	int result = 0;

	for (__u32 i = 0; !result && i < strings->len; i++)
		result = counters_set(counters, stats->data[i], "%.*s", ETH_GSTRING_LEN,
				      (const char *)strings->data + (size_t)i * ETH_GSTRING_LEN);
	return result;
}

/* One try; -EAGAIN when the number of counters changed meanwhile. */
static int get_stats(const char *ifname, struct ethtool_gstrings **strings,
		     struct ethtool_stats **stats)
{
	__u32 len;
	int err;

	*strings = ethtool_strings(ifname, ETH_SS_STATS);
	if (!*strings)
		return -errno;
	len = (*strings)->len;
	*stats = calloc(1, sizeof(**stats) + ((size_t)len + SLACK) * sizeof((*stats)->data[0]));
	if (!*stats) {
		err = -ENOMEM;
		goto free_strings;
	}
	(*stats)->cmd = ETHTOOL_GSTATS;
	(*stats)->n_stats = len;
	err = ethtool_ioctl(ifname, *stats);
	if (!err && (*stats)->n_stats != len)
		err = -EAGAIN;
	if (!err)
		return 0;
	free(*stats);
free_strings:
	free(*strings);
	return err;
}

int ethtool_read(const void *ifname, struct counters *counters)
{
	struct ethtool_gstrings *strings = NULL;
	struct ethtool_stats *stats = NULL;
	int result = -EAGAIN;

	for (int i = 0; result == -EAGAIN && i < TRIES; i++)
		result = get_stats(ifname, &strings, &stats);
	if (result == -EAGAIN)
		return fail_because(EAGAIN, ifname, "ethtool statistics",
				    "their number changed in each of %d tries", TRIES);
	if (result)
		return fail(-result, ifname, "ethtool statistics");
	result = keep_stats(strings, stats, counters);
	free(stats);
	free(strings);
	return result;
}

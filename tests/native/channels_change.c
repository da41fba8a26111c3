// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * channels_change IFNAME CHANGES: reads the ethtool counters of a port whose channels change for so
 * many times just after the agent has asked for their number or their names. Prints an edge.
 */
#include <linux/ethtool.h>
#include <net/if.h>
#include <stdlib.h>

#include "ethtool.h"
#include "sample.h"

static int changes;

int __real_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument);

/* One channel becomes two, and two become one. */
static void change_channels(int fd, unsigned long request, const struct ifreq *asked)
{
	struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
	struct ifreq ifreq = *asked;

	ifreq.ifr_data = (void *)&channels;
	if (__real_ioctl(fd, request, &ifreq))
		abort();
	channels.cmd = ETHTOOL_SCHANNELS;
	channels.rx_count = 3 - channels.rx_count;
	channels.tx_count = 3 - channels.tx_count;
	if (__real_ioctl(fd, request, &ifreq))
		abort();
}

int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
	const struct ifreq *ifreq = argument;
	__u32 cmd = *(const __u32 *)ifreq->ifr_data;

	/* First after the names were read, then before. */
	if (changes && cmd == (changes % 2 ? ETHTOOL_GSTATS : ETHTOOL_GSTRINGS)) {
		changes--;
		change_channels(fd, request, ifreq);
	}
	return __real_ioctl(fd, request, argument);
}

int main(int argc, char **argv)
{
	struct sampler sampler;

	if (argc != 3 || sampler_create(&sampler))
		return 1;
	changes = atoi(argv[2]);
	sampler_add(&sampler, (struct source){"ethtool", .read = ethtool_read, .context = argv[1]});
	return sampler_edge(&sampler, "start") != 0;
}

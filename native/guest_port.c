// SPDX-License-Identifier: GPL-2.0-or-later
#include "guest_port.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "ethtool.h"
#include "guest_link.h"
#include "guest_system.h"
#include "link.h"

#define OWN_NETNS "/proc/self/ns/net"
#define CARRIER_BUDGET_NS (20 * NS_PER_S)
#define CARRIER_STEP_NS (10 * NS_PER_MS)

static int first_netns;
static int netns[SIDES];

static int enter(int fd)
{
	return setns(fd, CLONE_NEWNET) ? fail(errno, "netns", "enter") : 0;
}

static int open_netns(int *fd)
{
	*fd = open(OWN_NETNS, O_RDONLY | O_CLOEXEC);
	return *fd < 0 ? fail(errno, OWN_NETNS, "open") : 0;
}

/* Router solicitations and duplicate address detection would be counted. */
static int silence_ipv6(void)
{
	static const char path[] = "/proc/sys/net/ipv6/conf/%s/disable_ipv6";
	static const char *const scopes[] = {"all", "default"};
	char name[sizeof(path) + 8];

	for (size_t i = 0; i < 2; i++) {
		int fd, failed;

		snprintf(name, sizeof(name), path, scopes[i]);
		fd = open(name, O_WRONLY | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT)
			return 0; /* a kernel without IPv6 */
		failed = fd < 0 || write(fd, "1", 1) != 1;
		if (failed)
			return fail(errno, name, "write");
		close(fd);
	}
	return 0;
}

int guest_netns_create(void)
{
	int result = open_netns(&first_netns);

	for (int side = 0; !result && side < SIDES; side++) {
		if (unshare(CLONE_NEWNET))
			return fail(errno, "netns", "create");
		result = open_netns(&netns[side]);
		if (!result)
			result = silence_ipv6();
	}
	return result ? result : enter(first_netns);
}

int guest_netns_enter(enum side side)
{
	return enter(netns[side]);
}

static int find_by_mac(const uint8_t mac[6], struct link *link)
{
	struct if_nameindex *names = if_nameindex();
	int result = -ENODEV;

	for (struct if_nameindex *name = names; name && name->if_index; name++) {
		if (link_read(name->if_name, link) || memcmp(link->mac, mac, 6))
			continue;
		result = 0;
		break;
	}
	if_freenameindex(names);
	return result;
}

static int fail_find(const struct guest_job *job, const uint8_t mac[6])
{
	const char *port = guest_port_names[job->port];

	return fail_because(
		ENODEV, port, "port",
		"no such device: no interface has the MAC address %02x:%02x:%02x:%02x:%02x:%02x; "
		"this kernel has no driver for %s, or its module was not given",
		mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], port);
}

static int take_nic(const struct guest_job *job, enum side side)
{
	const struct guest_end *end = &job->ends[side];
	struct link link;

	if (find_by_mac(end->mac, &link))
		return fail_find(job, end->mac);
	return guest_link_move(link.ifindex, end->ifname, netns[side]);
}

static int take_nics(const struct guest_job *job)
{
	int result = 0;

	for (int side = 0; !result && side < SIDES; side++)
		result = take_nic(job, side);
	return result;
}

static int make_veth(const struct guest_job *job)
{
	int result = guest_netns_enter(SIDE_DUT);

	return result ? result : guest_link_add_veth(job, netns[SIDE_TESTER]);
}

/* A driver that cannot change its channels keeps them; the probe tells how many there are. */
static void set_queues(const struct guest_end *end, int queues)
{
	struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
	int err = ethtool_ioctl(end->ifname, &channels);

	if (err || !channels.max_combined || channels.combined_count == (__u32)queues)
		return;
	channels.cmd = ETHTOOL_SCHANNELS;
	channels.combined_count = queues;
	err = ethtool_ioctl(end->ifname, &channels);
	if (err)
		guest_say("%s: set %d channels: %s", end->ifname, queues, strerror(-err));
}

/*
 * The generator never waits for a ring to empty itself, nor for the receiving end, and in the
 * guest's time it sends hundreds of frames, with a small kernel more than a thousand, before the
 * first interrupt comes.
 */
static void set_rings(const struct guest_end *end)
{
	struct ethtool_ringparam rings = {.cmd = ETHTOOL_GRINGPARAM};
	int err = ethtool_ioctl(end->ifname, &rings);

	if (err ||
	    (rings.tx_pending == rings.tx_max_pending && rings.rx_pending == rings.rx_max_pending))
		return;
	rings.cmd = ETHTOOL_SRINGPARAM;
	rings.tx_pending = rings.tx_max_pending;
	rings.rx_pending = rings.rx_max_pending;
	err = ethtool_ioctl(end->ifname, &rings);
	if (err)
		guest_say("%s: set rings of %u to receive and %u to send: %s", end->ifname,
			  rings.rx_max_pending, rings.tx_max_pending, strerror(-err));
}

static int set_up(const struct guest_job *job, enum side side)
{
	const struct guest_end *end = &job->ends[side];
	struct link link;
	int result = guest_netns_enter(side);

	if (!result)
		result = link_read(end->ifname, &link);
	if (result)
		return result;
	set_queues(end, job->queues);
	set_rings(end);
	return guest_link_up(link.ifindex, end->ifname, job->mtu);
}

int guest_ports_create(const struct guest_job *job)
{
	int result = job->port == PORT_VETH ? make_veth(job) : take_nics(job);

	for (int side = 0; !result && side < SIDES; side++)
		result = set_up(job, side);
	return result;
}

static int wait_for_carrier(const char *ifname)
{
	int64_t deadline_ns = now_ns() + CARRIER_BUDGET_NS;
	struct link link;
	int result;

	for (;;) {
		result = link_read(ifname, &link);
		if (result || link.carrier)
			return result;
		if (now_ns() > deadline_ns)
			return fail_because(ENETDOWN, ifname, "carrier",
					    "none after %lld s of the guest's time",
					    CARRIER_BUDGET_NS / NS_PER_S);
		sleep_ns(CARRIER_STEP_NS);
	}
}

int guest_ports_wait(const struct guest_job *job)
{
	int result = 0;

	for (int side = 0; !result && side < SIDES; side++) {
		result = guest_netns_enter(side);
		if (!result)
			result = wait_for_carrier(job->ends[side].ifname);
	}
	return result;
}

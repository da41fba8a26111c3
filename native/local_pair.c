// SPDX-License-Identifier: GPL-2.0-or-later
#include "local_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/veth.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "rtnetlink.h"

#define NET_NS "/proc/thread-self/ns/net"
#define NO_IPV6 "/proc/sys/net/ipv6/conf/default/disable_ipv6" /* of the namespace we are in */
#define INNER_IFNAME "inject0"

static int enter(int fd, const char *name)
{
	return setns(fd, CLONE_NEWNET) ? fail(errno, name, "setns") : 0;
}

int local_pair_enter(const struct local_pair *pair)
{
	return enter(pair->inner_ns, pair->inner_ifname);
}

int local_pair_leave(const struct local_pair *pair)
{
	return enter(pair->outer_ns, pair->inner_ifname);
}

static int open_ns(int *fd)
{
	*fd = open(NET_NS, O_RDONLY | O_CLOEXEC);
	return *fd < 0 ? fail(errno, NET_NS, "open") : 0;
}

/* The stack behind the pair is to get our packets and no others. */
static int forbid_ipv6(void)
{
	int fd = open(NO_IPV6, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? 0 : fail(errno, NO_IPV6, "open");
	n = write(fd, "1", 1);
	close(fd);
	return n == 1 ? 0 : fail(errno, NO_IPV6, "write");
}

static void add_end(struct rtnetlink_request *request, const char *ifname, int queues, int mtu)
{
	rtnetlink_add_text(request, IFLA_IFNAME, ifname);
	rtnetlink_add_number(request, IFLA_MTU, mtu);
	rtnetlink_add_number(request, IFLA_NUM_RX_QUEUES, queues);
	rtnetlink_add_number(request, IFLA_NUM_TX_QUEUES, queues);
}

static int add_pair(const struct local_pair *pair, const char *outer_ifname, int queues, int mtu)
{
	struct rtnetlink_request request =
		rtnetlink_make_request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, 0);
	const struct ifinfomsg peer_info = {0};
	struct rtattr *info, *data, *peer;

	add_end(&request, pair->inner_ifname, queues, mtu);
	info = rtnetlink_add(&request, IFLA_LINKINFO, NULL, 0);
	rtnetlink_add_text(&request, IFLA_INFO_KIND, "veth");
	data = rtnetlink_add(&request, IFLA_INFO_DATA, NULL, 0);
	peer = rtnetlink_add(&request, VETH_INFO_PEER, &peer_info, sizeof(peer_info));
	add_end(&request, outer_ifname, queues, mtu);
	rtnetlink_add_number(&request, IFLA_NET_NS_FD, pair->outer_ns);
	rtnetlink_close_nest(&request, peer);
	rtnetlink_close_nest(&request, data);
	rtnetlink_close_nest(&request, info);
	return rtnetlink_ask(&request, outer_ifname, "make a veth pair");
}

static int bring_up(const char *ifname, struct link *link)
{
	struct rtnetlink_request request;
	int result = link_read(ifname, link);

	if (result)
		return result;
	request = rtnetlink_make_request(RTM_NEWLINK, 0, link->ifindex);
	request.info.ifi_flags = IFF_UP;
	request.info.ifi_change = IFF_UP;
	return rtnetlink_ask(&request, ifname, "bring up");
}

/* In the new namespace. */
static int set_up_inner(struct local_pair *pair, const char *outer_ifname, int queues, int mtu)
{
	struct link inner;
	int result = open_ns(&pair->inner_ns);

	if (!result)
		result = forbid_ipv6();
	if (!result)
		result = add_pair(pair, outer_ifname, queues, mtu);
	return result ? result : bring_up(pair->inner_ifname, &inner);
}

int local_pair_create(struct local_pair *pair, int queues, int mtu)
{
	char outer_ifname[IF_NAMESIZE];
	int result, left;

	*pair = (struct local_pair)LOCAL_PAIR_NONE;
	strcpy(pair->inner_ifname, INNER_IFNAME);
	snprintf(outer_ifname, sizeof(outer_ifname), "local%d", getpid());
	result = open_ns(&pair->outer_ns);
	if (!result && unshare(CLONE_NEWNET))
		result = fail_hint(fail(errno, INNER_IFNAME, "unshare"), "run as root");
	if (result)
		goto destroy;
	result = set_up_inner(pair, outer_ifname, queues, mtu);
	left = local_pair_leave(pair);
	if (!result)
		result = left;
	if (!result)
		result = bring_up(outer_ifname, &pair->stack);
	if (!result)
		return 0;
destroy:
	local_pair_destroy(pair);
	return result;
}

void local_pair_destroy(struct local_pair *pair)
{
	struct failure before = failure;
	struct rtnetlink_request request;

	/* The kernel would, too, but later. */
	if (pair->stack.ifindex) {
		request = rtnetlink_make_request(RTM_DELLINK, 0, pair->stack.ifindex);
		rtnetlink_ask(&request, pair->stack.ifname, "delete");
	}
	failure = before;
	if (pair->inner_ns >= 0)
		close(pair->inner_ns);
	if (pair->outer_ns >= 0)
		close(pair->outer_ns);
	*pair = (struct local_pair)LOCAL_PAIR_NONE;
}

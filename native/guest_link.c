// SPDX-License-Identifier: GPL-2.0-or-later
/* What rtnetlink is to change about a port of the guest. */
#include "guest_link.h"

#include <errno.h>
#include <linux/veth.h>

#include "error.h"
#include "rtnetlink.h"

static void add_end(struct rtnetlink_request *request, const struct guest_job *job, enum side side)
{
	const struct guest_end *end = &job->ends[side];

	rtnetlink_add_text(request, IFLA_IFNAME, end->ifname);
	rtnetlink_add(request, IFLA_ADDRESS, end->mac, sizeof(end->mac));
	rtnetlink_add_number(request, IFLA_NUM_RX_QUEUES, job->queues);
	rtnetlink_add_number(request, IFLA_NUM_TX_QUEUES, job->queues);
}

int guest_link_add_veth(const struct guest_job *job, int peer_netns)
{
	struct rtnetlink_request request =
		rtnetlink_make_request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, 0);
	const struct ifinfomsg peer_info = {0};
	struct rtattr *info, *data, *peer;
	int result;

	add_end(&request, job, SIDE_DUT);
	info = rtnetlink_add(&request, IFLA_LINKINFO, NULL, 0);
	rtnetlink_add_text(&request, IFLA_INFO_KIND, "veth");
	data = rtnetlink_add(&request, IFLA_INFO_DATA, NULL, 0);
	peer = rtnetlink_add(&request, VETH_INFO_PEER, &peer_info, sizeof(peer_info));
	add_end(&request, job, SIDE_TESTER);
	rtnetlink_add_number(&request, IFLA_NET_NS_FD, peer_netns);
	rtnetlink_close_nest(&request, peer);
	rtnetlink_close_nest(&request, data);
	rtnetlink_close_nest(&request, info);
	result = rtnetlink_ask(&request, "veth", "port");
	if (result == -EOPNOTSUPP)
		fail_because(ENODEV, "veth", "port", "no such device: this kernel has no veth");
	return result;
}

int guest_link_move(int ifindex, const char *ifname, int netns)
{
	struct rtnetlink_request request = rtnetlink_make_request(RTM_NEWLINK, 0, ifindex);

	rtnetlink_add_text(&request, IFLA_IFNAME, ifname);
	rtnetlink_add_number(&request, IFLA_NET_NS_FD, netns);
	return rtnetlink_ask(&request, ifname, "move to its namespace");
}

int guest_link_up(int ifindex, const char *ifname, int mtu)
{
	struct rtnetlink_request request = rtnetlink_make_request(RTM_NEWLINK, 0, ifindex);

	rtnetlink_add_number(&request, IFLA_MTU, mtu);
	request.info.ifi_flags = IFF_UP;
	request.info.ifi_change = IFF_UP;
	return rtnetlink_ask(&request, ifname, "bring up");
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "link.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "error.h"

#define ANSWER_LEN 32768

static int ask(int fd, int ifindex)
{
	struct {
		struct nlmsghdr header;
		struct ifinfomsg info;
	} request = {
		.header = {.nlmsg_len = sizeof(request),
			   .nlmsg_type = RTM_GETLINK,
			   .nlmsg_flags = NLM_F_REQUEST},
		.info = {.ifi_index = ifindex},
	};

	return send(fd, &request, sizeof(request), 0) < 0 ? -errno : 0;
}

static void take_attribute(struct link *link, const struct rtattr *attribute)
{
	const void *data = RTA_DATA(attribute);
	size_t len = RTA_PAYLOAD(attribute);

	switch (attribute->rta_type) {
	case IFLA_MTU:
		memcpy(&link->mtu, data, sizeof(link->mtu));
		break;
	case IFLA_NUM_RX_QUEUES:
		memcpy(&link->rx_queues, data, sizeof(link->rx_queues));
		break;
	case IFLA_NUM_TX_QUEUES:
		memcpy(&link->tx_queues, data, sizeof(link->tx_queues));
		break;
	case IFLA_PROMISCUITY:
		memcpy(&link->promiscuity, data, sizeof(link->promiscuity));
		break;
	case IFLA_CARRIER:
		link->carrier = *(const uint8_t *)data;
		break;
	case IFLA_ADDRESS:
		if (len == sizeof(link->mac))
			memcpy(link->mac, data, len);
		break;
	case IFLA_STATS64:
		if (len > sizeof(link->stats))
			len = sizeof(link->stats);
		memcpy(link->stats, data, len);
		link->stats_len = len / sizeof(link->stats[0]);
		break;
	}
}

static int take_answer(struct link *link, struct nlmsghdr *header, ssize_t len)
{
	struct ifinfomsg *info = NLMSG_DATA(header);
	struct rtattr *attribute = IFLA_RTA(info);
	int left;

	if (len < 0)
		return errno;
	if (!NLMSG_OK(header, len))
		return EBADMSG;
	if (header->nlmsg_type == NLMSG_ERROR)
		return -((struct nlmsgerr *)NLMSG_DATA(header))->error;
	left = IFLA_PAYLOAD(header);
	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
		take_attribute(link, attribute);
	return 0;
}

int link_read(const char *ifname, struct link *link)
{
	char answer[ANSWER_LEN] __attribute__((aligned(NLMSG_ALIGNTO)));
	int fd, err;

	memset(link, 0, sizeof(*link));
	strncpy(link->ifname, ifname, sizeof(link->ifname) - 1);
	link->ifindex = if_nametoindex(ifname);
	if (!link->ifindex)
		return fail(errno, ifname, "find");
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return fail(errno, ifname, "rtnetlink socket");
	err = -ask(fd, link->ifindex);
	if (!err)
		err = take_answer(link, (struct nlmsghdr *)answer, recv(fd, answer, ANSWER_LEN, 0));
	close(fd);
	return err ? fail(err, ifname, "RTM_GETLINK") : 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* What rtnetlink is to change about a port of the guest. */
#include "guest_link.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "error.h"

#define REQUEST_LEN 1024 /* more than the largest request that is made here */
#define ANSWER_LEN 4096

struct request {
	struct nlmsghdr header;
	struct ifinfomsg info;
	char attributes[REQUEST_LEN];
};

static struct request make_request(int type, int flags, int ifindex)
{
	return (struct request){
		.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
			   .nlmsg_type = type,
			   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags},
		.info = {.ifi_index = ifindex},
	};
}

static struct rtattr *add(struct request *request, int type, const void *data, size_t len)
{
	struct rtattr *attribute =
		(struct rtattr *)((char *)request + NLMSG_ALIGN(request->header.nlmsg_len));

	attribute->rta_type = type;
	attribute->rta_len = RTA_LENGTH(len);
	if (len)
		memcpy(RTA_DATA(attribute), data, len);
	request->header.nlmsg_len = NLMSG_ALIGN(request->header.nlmsg_len) + RTA_SPACE(len);
	return attribute;
}

static void add_number(struct request *request, int type, uint32_t value)
{
	add(request, type, &value, sizeof(value));
}

static void add_text(struct request *request, int type, const char *text)
{
	add(request, type, text, strlen(text) + 1);
}

/* Everything added since the attribute is inside of it. */
static void close_nest(struct request *request, struct rtattr *nest)
{
	nest->rta_len = (char *)request + request->header.nlmsg_len - (char *)nest;
}

static int read_answer(int fd)
{
	char answer[ANSWER_LEN] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct nlmsghdr *header = (struct nlmsghdr *)answer;
	ssize_t len = recv(fd, answer, sizeof(answer), 0);

	if (len < 0)
		return -errno;
	if (!NLMSG_OK(header, len) || header->nlmsg_type != NLMSG_ERROR)
		return -EBADMSG;
	return ((struct nlmsgerr *)NLMSG_DATA(header))->error;
}

static int ask(const struct request *request, const char *ifname, const char *step)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int err;

	if (fd < 0)
		return fail(errno, ifname, "rtnetlink socket");
	err = send(fd, request, request->header.nlmsg_len, 0) < 0 ? -errno : read_answer(fd);
	close(fd);
	return err ? fail(-err, ifname, step) : 0;
}

static void add_end(struct request *request, const struct guest_job *job, enum side side)
{
	const struct guest_end *end = &job->ends[side];

	add_text(request, IFLA_IFNAME, end->ifname);
	add(request, IFLA_ADDRESS, end->mac, sizeof(end->mac));
	add_number(request, IFLA_NUM_RX_QUEUES, job->queues);
	add_number(request, IFLA_NUM_TX_QUEUES, job->queues);
}

int guest_link_add_veth(const struct guest_job *job, int peer_netns)
{
	struct request request = make_request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, 0);
	const struct ifinfomsg peer_info = {0};
	struct rtattr *info, *data, *peer;
	int result;

	add_end(&request, job, SIDE_DUT);
	info = add(&request, IFLA_LINKINFO, NULL, 0);
	add_text(&request, IFLA_INFO_KIND, "veth");
	data = add(&request, IFLA_INFO_DATA, NULL, 0);
	peer = add(&request, VETH_INFO_PEER, &peer_info, sizeof(peer_info));
	add_end(&request, job, SIDE_TESTER);
	add_number(&request, IFLA_NET_NS_FD, peer_netns);
	close_nest(&request, peer);
	close_nest(&request, data);
	close_nest(&request, info);
	result = ask(&request, "veth", "port");
	if (result == -EOPNOTSUPP)
		fail_because(ENODEV, "veth", "port", "no such device: this kernel has no veth");
	return result;
}

int guest_link_move(int ifindex, const char *ifname, int netns)
{
	struct request request = make_request(RTM_NEWLINK, 0, ifindex);

	add_text(&request, IFLA_IFNAME, ifname);
	add_number(&request, IFLA_NET_NS_FD, netns);
	return ask(&request, ifname, "move to its namespace");
}

int guest_link_up(int ifindex, const char *ifname, int mtu)
{
	struct request request = make_request(RTM_NEWLINK, 0, ifindex);

	add_number(&request, IFLA_MTU, mtu);
	request.info.ifi_flags = IFF_UP;
	request.info.ifi_change = IFF_UP;
	return ask(&request, ifname, "bring up");
}

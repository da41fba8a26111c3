// SPDX-License-Identifier: GPL-2.0-or-later
#include "rtnetlink.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "error.h"

#define ANSWER_LEN 4096

struct rtnetlink_request rtnetlink_make_request(int type, int flags, int ifindex)
{
	return (struct rtnetlink_request){
		.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
			   .nlmsg_type = type,
			   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags},
		.info = {.ifi_index = ifindex},
	};
}

struct rtattr *rtnetlink_add(struct rtnetlink_request *request, int type, const void *data,
			     size_t len)
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

void rtnetlink_add_number(struct rtnetlink_request *request, int type, uint32_t value)
{
	rtnetlink_add(request, type, &value, sizeof(value));
}

void rtnetlink_add_text(struct rtnetlink_request *request, int type, const char *text)
{
	rtnetlink_add(request, type, text, strlen(text) + 1);
}

void rtnetlink_close_nest(struct rtnetlink_request *request, struct rtattr *nest)
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

int rtnetlink_ask(const struct rtnetlink_request *request, const char *ifname, const char *step)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int err;

	if (fd < 0)
		return fail(errno, ifname, "rtnetlink socket");
	err = send(fd, request, request->header.nlmsg_len, 0) < 0 ? -errno : read_answer(fd);
	close(fd);
	return err ? fail(-err, ifname, step) : 0;
}

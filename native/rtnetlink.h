/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_RTNETLINK_H
#define XDPREPRO_RTNETLINK_H

/* Requests to change a network interface. */

#include <stddef.h>
#include <stdint.h>

#include <linux/rtnetlink.h>

#define RTNETLINK_REQUEST_LEN 1024 /* more than the largest request that is made here */

struct rtnetlink_request {
	struct nlmsghdr header;
	struct ifinfomsg info;
	char attributes[RTNETLINK_REQUEST_LEN];
};

struct rtnetlink_request rtnetlink_make_request(int type, int flags, int ifindex);

/* An attribute behind those that there are; returns it. */
struct rtattr *rtnetlink_add(struct rtnetlink_request *request, int type, const void *data,
			     size_t len);
void rtnetlink_add_number(struct rtnetlink_request *request, int type, uint32_t value);
void rtnetlink_add_text(struct rtnetlink_request *request, int type, const char *text);

/* Everything added since the attribute is inside of it. */
void rtnetlink_close_nest(struct rtnetlink_request *request, struct rtattr *nest);

/* Send it and wait for the answer; a failure is told with fail(). */
int rtnetlink_ask(const struct rtnetlink_request *request, const char *ifname, const char *step);

#endif

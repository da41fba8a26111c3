// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * page_pools: reads the page pools of port 2 from answers that are made here, as no driver that can
 * be had without hardware tells its pools which port they are of. Prints an edge.
 */
#include <linux/genetlink.h>
#include <string.h>
#include <sys/socket.h>

#include "port_counters.h"
#include "sample.h"

#define FAMILY_ID 77

/* Attributes of the family netdev, by their numbers in the kernel's uapi/linux/netdev.h. */
enum { GET_ID = 1, GET_IFINDEX = 2, GET_INFLIGHT = 4, GET_INFLIGHT_MEM = 5, GET_DETACH_TIME = 6 };
enum { STATS_INFO = 1, STATS_ALLOC_FAST = 8, STATS_RECYCLE_RELEASED = 18 };

struct message {
	struct nlmsghdr header;
	struct genlmsghdr generic;
	char attributes[512];
};

static struct genlmsghdr asked; /* by the last request */
static int answered;            /* messages since then */

ssize_t __wrap_send(int fd, const void *data, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t size, int flags);

static void start(struct message *message, __u16 type, __u16 flags)
{
	memset(message, 0, sizeof(*message));
	message->header.nlmsg_type = type;
	message->header.nlmsg_flags = flags;
	message->header.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN);
}

static struct nlattr *add(struct message *message, __u16 type, const void *data, size_t len)
{
	struct nlattr *attribute = (void *)((char *)message + message->header.nlmsg_len);

	attribute->nla_type = type;
	attribute->nla_len = NLA_HDRLEN + len;
	if (len)
		memcpy(attribute + 1, data, len);
	message->header.nlmsg_len += NLA_ALIGN(attribute->nla_len);
	return attribute;
}

static void add_u32(struct message *message, __u16 type, __u32 value)
{
	add(message, type, &value, sizeof(value));
}

static void add_u64(struct message *message, __u16 type, __u64 value)
{
	add(message, type, &value, sizeof(value));
}

/* The kernel sends numbers in four bytes where they fit. */
static void answer_get(struct message *message, __u32 id, __u32 ifindex)
{
	add_u32(message, GET_ID, id);
	if (ifindex)
		add_u32(message, GET_IFINDEX, ifindex);
	add_u32(message, GET_INFLIGHT, 10 + id);
	add_u64(message, GET_INFLIGHT_MEM, 5000000000ULL + id);
	add_u32(message, GET_DETACH_TIME, 1);
}

static void answer_stats(struct message *message, __u32 id, __u32 ifindex)
{
	struct nlattr *info = add(message, STATS_INFO | NLA_F_NESTED, NULL, 0);

	add_u32(message, GET_ID, id);
	if (ifindex)
		add_u32(message, GET_IFINDEX, ifindex);
	info->nla_len = (char *)message + message->header.nlmsg_len - (char *)info;
	add_u32(message, STATS_ALLOC_FAST, 100 + id);
	add_u64(message, STATS_RECYCLE_RELEASED, 6000000000ULL + id);
}

ssize_t __wrap_send(int fd, const void *data, size_t len, int flags)
{
	(void)fd;
	(void)flags;
	asked = ((const struct message *)data)->generic;
	answered = 0;
	return len;
}

/* Pools 40 and 41 are of port 2, 50 is of port 3 and 60 of none. */
ssize_t __wrap_recv(int fd, void *data, size_t size, int flags)
{
	static const __u32 pools[][2] = {{40, 2}, {50, 3}, {60, 0}, {41, 2}};
	struct message message;
	__u16 id = FAMILY_ID;

	(void)fd;
	(void)flags;
	start(&message, FAMILY_ID, NLM_F_MULTI);
	if (asked.cmd == CTRL_CMD_GETFAMILY) {
		message.header.nlmsg_flags = 0;
		add(&message, CTRL_ATTR_FAMILY_ID, &id, sizeof(id));
	} else if (answered == 4) {
		message.header.nlmsg_type = NLMSG_DONE; /* with an error of 0 */
	} else {
		(asked.cmd == 5 ? answer_get : answer_stats)(&message, pools[answered][0],
							     pools[answered][1]);
		answered++;
	}
	if (message.header.nlmsg_len > size)
		return -1;
	memcpy(data, &message, message.header.nlmsg_len);
	return message.header.nlmsg_len;
}

int main(void)
{
	struct link link = {.ifname = "port", .ifindex = 2};
	struct sampler sampler;

	if (sampler_create(&sampler))
		return 1;
	sampler_add(&sampler,
		    (struct source){"page_pool", .read = page_pool_read, .context = &link});
	sampler_add(&sampler, (struct source){"page_pool_stats", .read = page_pool_stats_read,
					      .context = &link});
	return sampler_edge(&sampler, "start") != 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"

struct request {
	struct nlmsghdr header;
	struct ifaddrmsg address;
	struct rtattr local_header;
	uint32_t local;
	struct rtattr lifetime_header;
	struct ifa_cacheinfo lifetime;
};

struct answer {
	struct nlmsghdr header;
	struct nlmsgerr error;
};

static int transact(const struct request *request)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	char buffer[4096];
	const struct answer *answer = (const struct answer *)buffer;
	ssize_t n = -1;
	int err;

	if (fd < 0)
		return -errno;
	if (send(fd, request, request->header.nlmsg_len, 0) >= 0)
		n = recv(fd, buffer, sizeof(buffer), 0);
	err = n < 0 ? -errno : n < (ssize_t)sizeof(*answer) ? -EPROTO : answer->error.error;
	close(fd);
	return err;
}

static struct request make_request(const struct address *address, int type, int flags,
				   uint32_t lifetime_s)
{
	return (struct request){
		.header = {.nlmsg_len = sizeof(struct request),
			   .nlmsg_type = type,
			   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags},
		.address = {.ifa_family = AF_INET,
			    .ifa_prefixlen = FRAME_PREFIX_LEN,
			    .ifa_index = address->link->ifindex},
		.local_header = {.rta_len = RTA_LENGTH(sizeof(uint32_t)), .rta_type = IFA_LOCAL},
		.local = htonl(FRAME_ADDRESS),
		.lifetime_header = {.rta_len = RTA_LENGTH(sizeof(struct ifa_cacheinfo)),
				    .rta_type = IFA_CACHEINFO},
		.lifetime = {.ifa_prefered = lifetime_s, .ifa_valid = lifetime_s},
	};
}

static bool is_somebodys(const struct ifaddrs *entry, const char *ifname)
{
	const struct sockaddr_in *address = (const struct sockaddr_in *)entry->ifa_addr;
	const struct sockaddr_in *mask = (const struct sockaddr_in *)entry->ifa_netmask;

	return address && address->sin_family == AF_INET && !strcmp(entry->ifa_name, ifname) &&
	       address->sin_addr.s_addr == htonl(FRAME_ADDRESS) &&
	       mask->sin_addr.s_addr != htonl(~0u << (32 - FRAME_PREFIX_LEN));
}

static int find_somebodys(const char *ifname, bool *found)
{
	struct ifaddrs *list;

	*found = false;
	if (getifaddrs(&list))
		return fail(errno, ifname, "read addresses");
	for (const struct ifaddrs *entry = list; entry; entry = entry->ifa_next)
		*found |= is_somebodys(entry, ifname);
	freeifaddrs(list);
	return 0;
}

int address_create(struct address *address, const struct link *link, int64_t lifetime_ns)
{
	struct request request;
	bool there;
	int result = find_somebodys(link->ifname, &there);

	*address = (struct address){.link = link};
	if (result || there)
		return result;
	request = make_request(address, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE,
			       lifetime_ns / NS_PER_S + 1);
	result = transact(&request);
	if (result)
		return fail(-result, link->ifname, "add address");
	address->ours = true;
	return 0;
}

void address_destroy(struct address *address)
{
	struct request request;

	if (!address->ours)
		return;
	request = make_request(address, RTM_DELADDR, 0, 0);
	transact(&request);
	address->ours = false;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "promiscuous.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "error.h"

static int fail_promiscuous(const char *ifname, int fd)
{
	int result = fail(errno, ifname, "take frames for others");

	if (fd >= 0)
		close(fd);
	return result;
}

int promiscuous_open(const struct link *link)
{
	const struct packet_mreq request = {
		.mr_ifindex = link->ifindex,
		.mr_type = PACKET_MR_PROMISC,
	};
	/* Protocol 0: no packet comes to this socket. */
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof(request)))
		return fail_promiscuous(link->ifname, fd);
	return fd;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "packet_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "error.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23 /* of Linux 4.20 */
#endif

static size_t ring_size(const struct packet_socket *packet)
{
	return (size_t)packet->block_size * packet->blocks;
}

static int fail_option(const struct packet_socket *packet, const char *step)
{
	int result = fail(errno, packet->ifname, step);

	if (failure.err == EINVAL || failure.err == ENOPROTOOPT)
		return fail_hint(result, "this kernel may be too old for it");
	if (failure.err == ENOMEM)
		return fail_hint(result, "%zu KiB are asked for: less packet.blocks will do",
				 ring_size(packet) / 1024);
	return result;
}

static int set_flag(const struct packet_socket *packet, int option, const char *step, int value)
{
	if (setsockopt(packet->fd, SOL_PACKET, option, &value, sizeof(value)))
		return fail_option(packet, step);
	return 0;
}

static int open_socket(struct packet_socket *packet, const struct link *link, int version,
		       const struct packet_spec *spec)
{
	*packet = (struct packet_socket){
		.version = version,
		.block_size = spec->block_size,
		.blocks = spec->blocks,
		.frame_size = spec->frame_size,
		.frames = spec->block_size / spec->frame_size * spec->blocks,
		.timeout_ms = spec->timeout_ms,
	};
	memcpy(packet->ifname, link->ifname, sizeof(packet->ifname));
	/* Protocol 0: nothing comes before the socket is bound to the port. */
	packet->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (packet->fd >= 0)
		return set_flag(packet, PACKET_VERSION, "PACKET_VERSION", version);
	fail(errno, packet->ifname, "packet socket");
	if (failure.err == EAFNOSUPPORT)
		fail_hint(fail_result(), "this kernel lacks CONFIG_PACKET");
	return fail_result();
}

static int map_ring(struct packet_socket *packet, int option, const char *step)
{
	bool receives = option == PACKET_RX_RING;
	struct tpacket_req3 request = {
		.tp_block_size = packet->block_size,
		.tp_block_nr = packet->blocks,
		.tp_frame_size = packet->frame_size,
		.tp_frame_nr = packet->frames,
		.tp_retire_blk_tov = receives ? packet->timeout_ms : 0,
	};
	/* The structure of TPACKET_V2 is the beginning of this one. */
	socklen_t len =
		packet->version == TPACKET_V3 ? sizeof(request) : sizeof(struct tpacket_req);

	if (setsockopt(packet->fd, SOL_PACKET, option, &request, len))
		return fail_option(packet, step);
	packet->ring = mmap(NULL, ring_size(packet), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_POPULATE, packet->fd, 0);
	if (packet->ring != MAP_FAILED)
		return 0;
	packet->ring = NULL;
	return fail(errno, packet->ifname, "map packet ring");
}

static int bind_socket(const struct packet_socket *packet, const struct link *link, int protocol)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_ifindex = link->ifindex,
		.sll_protocol = htons(protocol),
	};

	if (bind(packet->fd, (struct sockaddr *)&address, sizeof(address)))
		return fail(errno, packet->ifname, "bind packet socket");
	return 0;
}

int packet_socket_receive(struct packet_socket *packet, const struct link *link, int version,
			  const struct packet_spec *spec)
{
	int result = open_socket(packet, link, version, spec);

	if (!result)
		result = set_flag(packet, PACKET_IGNORE_OUTGOING, "PACKET_IGNORE_OUTGOING", 1);
	if (!result)
		result = map_ring(packet, PACKET_RX_RING, "PACKET_RX_RING");
	if (!result)
		result = bind_socket(packet, link, ETH_P_ALL);
	if (result)
		packet_socket_destroy(packet);
	return result;
}

int packet_socket_transmit(struct packet_socket *packet, const struct link *link, int version,
			   const struct packet_spec *spec)
{
	int result = open_socket(packet, link, version, spec);

	if (!result)
		result = set_flag(packet, PACKET_QDISC_BYPASS, "PACKET_QDISC_BYPASS", spec->bypass);
	if (!result)
		result = map_ring(packet, PACKET_TX_RING, "PACKET_TX_RING");
	if (!result)
		result = bind_socket(packet, link, 0);
	if (result)
		packet_socket_destroy(packet);
	return result;
}

void packet_socket_destroy(struct packet_socket *packet)
{
	if (packet->ring)
		munmap(packet->ring, ring_size(packet));
	packet->ring = NULL;
	if (packet->fd >= 0)
		close(packet->fd);
	packet->fd = -1;
}

int packet_socket_statistics(const struct packet_socket *packet,
			     struct packet_statistics *statistics)
{
	struct tpacket_stats_v3 since = {0};
	socklen_t len =
		packet->version == TPACKET_V3 ? sizeof(since) : sizeof(struct tpacket_stats);

	if (getsockopt(packet->fd, SOL_PACKET, PACKET_STATISTICS, &since, &len))
		return fail(errno, packet->ifname, "PACKET_STATISTICS");
	statistics->packets += since.tp_packets;
	statistics->drops += since.tp_drops;
	statistics->freezes += since.tp_freeze_q_cnt;
	return 0;
}

static int get_flag(const struct packet_socket *packet, int option)
{
	int value = -1;
	socklen_t len = sizeof(value);

	getsockopt(packet->fd, SOL_PACKET, option, &value, &len);
	return value;
}

json_t *packet_socket_describe(const struct packet_socket *packet)
{
	json_t *object = json_pack(
		"{s:i, s:b, s:b, s:I, s:I, s:I, s:I}", "version",
		get_flag(packet, PACKET_VERSION) == TPACKET_V3 ? 3 : 2, "bypass",
		get_flag(packet, PACKET_QDISC_BYPASS) == 1, "ignore_outgoing",
		get_flag(packet, PACKET_IGNORE_OUTGOING) == 1, "block_size",
		(json_int_t)packet->block_size, "blocks", (json_int_t)packet->blocks, "frame_size",
		(json_int_t)packet->frame_size, "timeout_ms", (json_int_t)packet->timeout_ms);

	if (!object)
		fail(ENOMEM, packet->ifname, "describe packet socket");
	return object;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_PACKET_SOCKET_H
#define XDPREPRO_PACKET_SOCKET_H

#include <jansson.h>
#include <linux/if_packet.h>
#include <stdbool.h>
#include <stdint.h>

#include "link.h"
#include "spec.h"

/* An AF_PACKET socket on a port, and its ring. */
struct packet_socket {
	char ifname[IF_NAMESIZE];
	int fd;
	int version; /* TPACKET_V2, TPACKET_V3 */
	uint8_t *ring;
	uint32_t block_size;
	uint32_t blocks;
	uint32_t frame_size;
	uint32_t frames;
	uint32_t timeout_ms; /* TPACKET_V3, to receive */
};

/* The kernel's account, which it sets to zero whenever it is read. */
struct packet_statistics {
	uint64_t packets; /* drops among them */
	uint64_t drops;
	uint64_t freezes; /* TPACKET_V3 */
};

/* A socket that takes every frame that comes in, none that goes out. */
int packet_socket_receive(struct packet_socket *socket, const struct link *link, int version,
			  const struct packet_spec *spec);
/* One that takes none. */
int packet_socket_transmit(struct packet_socket *socket, const struct link *link, int version,
			   const struct packet_spec *spec);
void packet_socket_destroy(struct packet_socket *socket);

/* Add what came since the last time. */
int packet_socket_statistics(const struct packet_socket *socket,
			     struct packet_statistics *statistics);

/* As the kernel tells it; NULL after fail(). */
json_t *packet_socket_describe(const struct packet_socket *socket);

#endif

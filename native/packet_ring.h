/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_PACKET_RING_H
#define XDPREPRO_PACKET_RING_H

struct packet_ring;

/*
 * A transmit ring of an AF_PACKET socket bound to the port, for frames of so many bytes; NULL after
 * fail().
 */
struct packet_ring *packet_ring_create(const char *ifname, int ifindex, int frame_len);
void packet_ring_destroy(struct packet_ring *ring);

#endif

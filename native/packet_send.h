/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The transmit ring of AF_PACKET. The version is a constant where these are inlined, so it costs
 * nothing per frame.
 */
#ifndef XDPREPRO_PACKET_SEND_H
#define XDPREPRO_PACKET_SEND_H

#include "packet_socket.h"

#define PACKET_INLINE static inline __attribute__((always_inline))

struct packet_sender {
	struct packet_socket socket;
	uint32_t head; /* slot to fill next */
	uint32_t tail; /* slot that the kernel owns longest, if `held` is not 0 */
	uint32_t held; /* slots that the kernel has */
};

PACKET_INLINE void *packet_slot(const struct packet_sender *sender, uint32_t index)
{
	return sender->socket.ring + (size_t)index * sender->socket.frame_size;
}

PACKET_INLINE uint8_t *packet_slot_frame(void *slot, int version)
{
	size_t header = version == TPACKET_V3 ? TPACKET3_HDRLEN : TPACKET2_HDRLEN;

	return (uint8_t *)slot + header - sizeof(struct sockaddr_ll);
}

PACKET_INLINE uint32_t *packet_slot_status(void *slot, int version)
{
	return version == TPACKET_V3 ? &((struct tpacket3_hdr *)slot)->tp_status
				     : &((struct tpacket2_hdr *)slot)->tp_status;
}

PACKET_INLINE uint32_t packet_room(const struct packet_sender *sender)
{
	return sender->socket.frames - sender->held;
}

/* The next slot to fill; there must be room. */
PACKET_INLINE uint8_t *packet_next(const struct packet_sender *sender, int version)
{
	return packet_slot_frame(packet_slot(sender, sender->head), version);
}

/* Give that slot to the kernel, which looks at it at the next packet_kick(). */
PACKET_INLINE void packet_hand_over(struct packet_sender *sender, uint32_t len, int version)
{
	void *slot = packet_slot(sender, sender->head);

	if (version == TPACKET_V3)
		((struct tpacket3_hdr *)slot)->tp_len = len;
	else
		((struct tpacket2_hdr *)slot)->tp_len = len;
	__atomic_store_n(packet_slot_status(slot, version), TP_STATUS_SEND_REQUEST,
			 __ATOMIC_RELEASE);
	sender->held++;
	if (++sender->head == sender->socket.frames)
		sender->head = 0;
}

/* Whether there is a frame that was not even tried: the last one is tried last. */
PACKET_INLINE bool packet_unsent(const struct packet_sender *sender, int version)
{
	uint32_t last = (sender->head ? sender->head : sender->socket.frames) - 1;

	return sender->held &&
	       __atomic_load_n(packet_slot_status(packet_slot(sender, last), version),
			       __ATOMIC_ACQUIRE) &
		       TP_STATUS_SEND_REQUEST;
}

/* Take back the slots that were sent, in order; how many they are. */
PACKET_INLINE uint32_t packet_take_back(struct packet_sender *sender, int version)
{
	uint32_t n = 0;

	for (; sender->held; sender->held--, n++) {
		uint32_t *status = packet_slot_status(packet_slot(sender, sender->tail), version);
		uint32_t now = __atomic_load_n(status, __ATOMIC_ACQUIRE);

		if (now & (TP_STATUS_SEND_REQUEST | TP_STATUS_SENDING))
			break;
		if (++sender->tail == sender->socket.frames)
			sender->tail = 0;
	}
	return n;
}

#endif

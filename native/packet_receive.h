/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The receive rings of AF_PACKET: slots of one frame (TPACKET_V2), or blocks of many (TPACKET_V3).
 */
#ifndef XDPREPRO_PACKET_RECEIVE_H
#define XDPREPRO_PACKET_RECEIVE_H

#include "packet_send.h"

struct packet_receiver {
	struct packet_socket socket;
	uint32_t at;   /* slot or block to look at next */
	uint32_t left; /* TPACKET_V3: frames of the block that are not taken yet */
	const struct tpacket3_hdr *frame; /* likewise: the next of them */
	uint64_t bytes;                   /* of the frames taken last */
};

/* What is done with a frame of len bytes, of which there are snaplen. */
typedef void (*packet_handle)(void *context, const uint8_t *frame, uint32_t snaplen, uint32_t len);

PACKET_INLINE uint32_t packet_take_v2(struct packet_receiver *receiver, uint32_t batch,
				      packet_handle handle, void *context)
{
	const struct packet_socket *socket = &receiver->socket;
	uint32_t n = 0;

	receiver->bytes = 0;
	for (; n < batch; n++) {
		struct tpacket2_hdr *slot =
			(struct tpacket2_hdr *)(socket->ring +
						(size_t)receiver->at * socket->frame_size);

		if (!(__atomic_load_n(&slot->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
			break;
		handle(context, (const uint8_t *)slot + slot->tp_mac, slot->tp_snaplen,
		       slot->tp_len);
		receiver->bytes += slot->tp_len;
		__atomic_store_n(&slot->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		if (++receiver->at == socket->frames)
			receiver->at = 0;
	}
	return n;
}

static inline struct tpacket_hdr_v1 *packet_block(const struct packet_receiver *receiver)
{
	const struct packet_socket *socket = &receiver->socket;
	size_t offset = (size_t)receiver->at * socket->block_size;

	return &((struct tpacket_block_desc *)(socket->ring + offset))->hdr.bh1;
}

/* Whether there is a frame, in the block that was begun or in the next one. */
PACKET_INLINE bool packet_open_block(struct packet_receiver *receiver)
{
	const struct tpacket_hdr_v1 *block = packet_block(receiver);

	if (receiver->left)
		return true;
	if (!(__atomic_load_n(&block->block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
		return false;
	receiver->left = block->num_pkts;
	receiver->frame =
		(const void *)((const uint8_t *)block - offsetof(struct tpacket_block_desc, hdr) +
			       block->offset_to_first_pkt);
	return true;
}

static inline void packet_close_block(struct packet_receiver *receiver)
{
	__atomic_store_n(&packet_block(receiver)->block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	if (++receiver->at == receiver->socket.blocks)
		receiver->at = 0;
}

PACKET_INLINE uint32_t packet_take_v3(struct packet_receiver *receiver, uint32_t batch,
				      packet_handle handle, void *context)
{
	uint32_t n = 0;

	receiver->bytes = 0;
	while (n < batch && packet_open_block(receiver)) {
		const struct tpacket3_hdr *frame = receiver->frame;

		for (; receiver->left && n < batch; receiver->left--, n++) {
			handle(context, (const uint8_t *)frame + frame->tp_mac, frame->tp_snaplen,
			       frame->tp_len);
			receiver->bytes += frame->tp_len;
			frame = (const void *)((const uint8_t *)frame + frame->tp_next_offset);
		}
		receiver->frame = frame;
		if (!receiver->left)
			packet_close_block(receiver);
	}
	return n;
}

#endif

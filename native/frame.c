// SPDX-License-Identifier: GPL-2.0-or-later
#include "frame.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <stddef.h>
#include <string.h>

static uint16_t checksum(const void *header, size_t len)
{
	uint16_t word;
	uint32_t sum = 0;

	for (size_t i = 0; i < len; i += 2) {
		memcpy(&word, (const uint8_t *)header + i, 2);
		sum += word;
	}
	sum = (sum & 0xffff) + (sum >> 16);
	sum += sum >> 16;
	return ~sum;
}

uint16_t frame_ip_check(const struct frame_spec *spec)
{
	uint8_t frame[FRAME_LEN_MAX];
	uint16_t check;

	frame_fill(spec, frame);
	memcpy(&check, frame + sizeof(struct ethhdr) + offsetof(struct iphdr, check),
	       sizeof(check));
	return check;
}

void frame_fill(const struct frame_spec *spec, uint8_t *frame)
{
	struct ethhdr eth = {.h_proto = htons(ETH_P_IP)};
	struct iphdr ip = {
		.version = 4,
		.ihl = 5,
		.tot_len = htons(spec->frame_len - sizeof(eth)),
		.frag_off = htons(0x4000), /* do not fragment */
		.ttl = 64,
		.protocol = IPPROTO_UDP,
		.saddr = htonl(FRAME_ADDRESS_FROM),
		.daddr = htonl(FRAME_ADDRESS_TO),
	};
	struct udphdr udp = {
		.source = htons(FRAME_FIRST_PORT),
		.dest = htons(FRAME_PORT),
		.len = htons(spec->frame_len - sizeof(eth) - sizeof(ip)),
		/* no checksum (0): one that fits every flow would have to be computed per frame */
	};

	memcpy(eth.h_dest, spec->dst_mac, ETH_ALEN);
	memcpy(eth.h_source, spec->src_mac, ETH_ALEN);
	ip.check = checksum(&ip, sizeof(ip));
	memset(frame, 0, spec->frame_len);
	memcpy(frame, &eth, sizeof(eth));
	memcpy(frame + sizeof(eth), &ip, sizeof(ip));
	memcpy(frame + sizeof(eth) + sizeof(ip), &udp, sizeof(udp));
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_FRAME_H
#define XDPREPRO_FRAME_H

#include <stdint.h>

#include "spec.h"

#define FRAME_ADDRESS_FROM 0xc6120001 /* 198.18.0.1, of the benchmarking range of RFC 2544 */
#define FRAME_ADDRESS_TO 0xc6120002
#define FRAME_PORT 9 /* discard */
#define FRAME_LEN_MIN 60
#define FRAME_LEN_MAX 9000
#define LIVE_FRAME_LEN_MAX 3400 /* a page, less headroom and skb_shared_info */
#define FRAME_FIRST_PORT 1024
#define FRAME_FLOWS_MAX (65536 - FRAME_FIRST_PORT)
#define FRAME_SPORT_OFFSET 34

/* The checksum in its IPv4 header, as on the wire. */
uint16_t frame_ip_check(const struct frame_spec *spec);

/* Write an IPv4/UDP frame of spec->frame_len bytes, flow 0. */
void frame_fill(const struct frame_spec *spec, uint8_t *frame);

#endif

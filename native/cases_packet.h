/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_CASES_PACKET_H
#define XDPREPRO_CASES_PACKET_H

#include "cases.h"

/* The places of the cases in cases_packet[]. */
enum packet_case {
	PACKET_V2_RXDROP,
	PACKET_V2_L2FWD,
	PACKET_V2_TXONLY,
	PACKET_V3_RXDROP,
	PACKET_V3_L2FWD,
	PACKET_V3_TXONLY,
	UDP_RXDROP,
	TC_DROP,
	TC_REDIRECT,
};

#endif

// SPDX-License-Identifier: GPL-2.0-or-later
/* What there was before XDP: packet sockets, UDP sockets and TC. */
#include "cases_packet.h"

#include "packet_app.h"
#include "tc_app.h"
#include "udp_app.h"

#define PACKET_CASE(NAME, ROLE, OPS) \
	{.name = NAME, .roles = ROLE_BIT(ROLE), .sections = SECTION_PACKET, .app = &(OPS)}

const struct test_case cases_packet[] = {
	[PACKET_V2_RXDROP] = PACKET_CASE("pkt-v2.rxdrop", ROLE_SINK, packet_ops),
	[PACKET_V2_L2FWD] = PACKET_CASE("pkt-v2.l2fwd", ROLE_FORWARD, packet_ops),
	[PACKET_V2_TXONLY] = PACKET_CASE("pkt-v2.txonly", ROLE_TRANSMIT, packet_send_ops),
	[PACKET_V3_RXDROP] = PACKET_CASE("pkt-v3.rxdrop", ROLE_SINK, packet_ops),
	[PACKET_V3_L2FWD] = PACKET_CASE("pkt-v3.l2fwd", ROLE_FORWARD, packet_ops),
	[PACKET_V3_TXONLY] = PACKET_CASE("pkt-v3.txonly", ROLE_TRANSMIT, packet_send_ops),
	[UDP_RXDROP] =
		{
			.name = "udp.rxdrop",
			.roles = ROLE_BIT(ROLE_SINK),
			.sections = SECTION_UDP,
			.app = &udp_ops,
		},
	[TC_DROP] = {.name = "tc.drop.no-touch", .roles = ROLE_BIT(ROLE_SINK), .app = &tc_ops},
	[TC_REDIRECT] =
		{
			.name = "tc.redirect.swap-macs",
			.roles = ROLE_BIT(ROLE_FORWARD),
			.app = &tc_ops,
		},
};
const size_t cases_packet_len = sizeof(cases_packet) / sizeof(cases_packet[0]);

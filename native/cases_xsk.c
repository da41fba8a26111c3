// SPDX-License-Identifier: GPL-2.0-or-later
/* Packets that go to AF_XDP sockets, or past one that is bound. */
#include "cases.h"
#include "xsk_app.h"

#define CASE(text, role, ...) \
	{.name = text, .roles = ROLE_BIT(role), .sections = SECTION_XSK, __VA_ARGS__}

#define TO_SOCKETS .program = PROGRAM(xsk_redirect, xsk_redirect)

/* XDP decides, by the program of the case without sockets; the application finds nothing. */
#define BESIDE_SOCKETS(op, touch) \
	.program = PROGRAM(xdp_##op, xdp_##op##_##touch), .app = &xsk_rxdrop

const struct test_case cases_xsk[] = {
	CASE("xsk.rxdrop", ROLE_SINK, TO_SOCKETS, .app = &xsk_rxdrop),
	CASE("xsk.rxdrop.swap-macs", ROLE_SINK, TO_SOCKETS, .app = &xsk_rxdrop_swap_macs),
	CASE("xsk.l2fwd.swap-macs", ROLE_FORWARD, TO_SOCKETS, .app = &xsk_l2fwd_swap_macs),
	/* Some drivers have queues for AF_XDP only while a program is attached. */
	CASE("xsk.txonly", ROLE_TRANSMIT, .program = PROGRAM(xdp_pass, xdp_pass_no_touch),
	     .app = &xsk_txonly),
	CASE("xdpxsk.drop.no-touch", ROLE_SINK, BESIDE_SOCKETS(drop, no_touch)),
	CASE("xdpxsk.drop.swap-macs", ROLE_SINK, BESIDE_SOCKETS(drop, swap_macs)),
	CASE("xdpxsk.pass.swap-macs", ROLE_SINK, BESIDE_SOCKETS(pass, swap_macs)),
	CASE("xdpxsk.tx.swap-macs", ROLE_FORWARD, BESIDE_SOCKETS(tx, swap_macs)),
};
const size_t cases_xsk_len = sizeof(cases_xsk) / sizeof(cases_xsk[0]);

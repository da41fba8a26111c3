// SPDX-License-Identifier: GPL-2.0-or-later
/* Packets that end, or turn round, in an XDP program. */
#include "cases.h"

#define CASE(text, role, program_of, ...) \
	{.name = text, .roles = ROLE_BIT(role), .program = program_of, __VA_ARGS__}

const struct test_case cases_xdp[] = {
	CASE("xdp.drop.no-touch", ROLE_SINK, PROGRAM(xdp_drop_no_touch, xdp_drop_no_touch)),
	CASE("xdp.drop.read-data", ROLE_SINK, PROGRAM(xdp_drop_read_data, xdp_drop_read_data)),
	CASE("xdp.pass.no-touch", ROLE_SINK, PROGRAM(xdp_pass_no_touch, xdp_pass_no_touch)),
	CASE("xdp.tx.swap-macs", ROLE_FORWARD, PROGRAM(xdp_tx_swap_macs, xdp_tx_swap_macs)),
	CASE("xdp.redirect.swap-macs", ROLE_FORWARD,
	     PROGRAM(xdp_redirect_swap_macs, xdp_redirect_swap_macs), .egress = EGRESS_KNOB),
	CASE("xdp.redirect-map.swap-macs", ROLE_FORWARD,
	     PROGRAM(xdp_redirect_map_swap_macs, xdp_redirect_map_swap_macs), .egress = EGRESS_MAP),
	CASE("bare.drop", ROLE_SINK, PROGRAM(bare_drop, bare_drop), .bare = true),
	CASE("bare.tx.swap-macs", ROLE_FORWARD, PROGRAM(bare_tx, bare_tx), .bare = true),
	CASE("bare.redirect-map.swap-macs", ROLE_FORWARD,
	     PROGRAM(bare_redirect_map, bare_redirect_map), .egress = EGRESS_MAP, .bare = true),
};
const size_t cases_xdp_len = sizeof(cases_xdp) / sizeof(cases_xdp[0]);

// SPDX-License-Identifier: GPL-2.0-or-later
/* Packets that end, or turn round, in an XDP program. */
#include "cases.h"

#define CASE(text, role, of, to, copies) \
	{                                \
		.name = text,            \
		.roles = ROLE_BIT(role), \
		.sections = SECTION_XDP, \
		.program = of,           \
		.egress = to,            \
		.load_bytes = copies,    \
	}

#define NO_TOUCH(op, object, role, egress)                                                        \
	CASE("xdp." op ".no-touch", role, PROGRAM(xdp_##object, xdp_##object##_no_touch), egress, \
	     false)

#define TOUCH(op, object, text, touch, role, egress) \
	CASE("xdp." op "." text, role, PROGRAM(xdp_##object, xdp_##object##_##touch), egress, true)

#define SWAP_MACS(op, object, role, egress) TOUCH(op, object, "swap-macs", swap_macs, role, egress)

#define EVERY_TOUCH(op, object, role)                                         \
	NO_TOUCH(op, object, role, EGRESS_NONE),                              \
		TOUCH(op, object, "read-data", read_data, role, EGRESS_NONE), \
		TOUCH(op, object, "parse-ip", parse_ip, role, EGRESS_NONE),   \
		SWAP_MACS(op, object, role, EGRESS_NONE)

#define BARE(text, role, of, ...) \
	{.name = text, .roles = ROLE_BIT(role), .program = of, .bare = true, __VA_ARGS__}

const struct test_case cases_xdp[] = {
	EVERY_TOUCH("drop", drop, ROLE_SINK),
	EVERY_TOUCH("pass", pass, ROLE_SINK),
	EVERY_TOUCH("tx", tx, ROLE_FORWARD),
	NO_TOUCH("abort", abort, ROLE_SINK, EGRESS_NONE),
	NO_TOUCH("redirect", redirect, ROLE_FORWARD, EGRESS_KNOB),
	SWAP_MACS("redirect", redirect, ROLE_FORWARD, EGRESS_KNOB),
	NO_TOUCH("redirect-map", redirect_map, ROLE_FORWARD, EGRESS_MAP),
	SWAP_MACS("redirect-map", redirect_map, ROLE_FORWARD, EGRESS_MAP),
	SWAP_MACS("redirect-multi", redirect_multi, ROLE_FORWARD, EGRESS_SLOTS),
	{
		.name = "xdp.redirect-cpu.no-touch",
		.roles = ROLE_BIT(ROLE_SINK) | ROLE_BIT(ROLE_FORWARD),
		.sections = SECTION_XDP,
		.program = PROGRAM(xdp_redirect_cpu, xdp_redirect_cpu_round_robin),
		.egress = EGRESS_CPUS,
	},
	BARE("bare.drop", ROLE_SINK, PROGRAM(bare_drop, bare_drop)),
	BARE("bare.tx.swap-macs", ROLE_FORWARD, PROGRAM(bare_tx, bare_tx)),
	BARE("bare.redirect-map.swap-macs", ROLE_FORWARD,
	     PROGRAM(bare_redirect_map, bare_redirect_map), .egress = EGRESS_MAP),
};
const size_t cases_xdp_len = sizeof(cases_xdp) / sizeof(cases_xdp[0]);

// SPDX-License-Identifier: GPL-2.0-or-later
#include "programs.h"

#include <string.h>

#include <linux/types.h>
#include "../bpf/record.h"
#include "bare_drop.skel.h"
#include "bare_pass.skel.h"
#include "bare_redirect_map.skel.h"
#include "bare_tx.skel.h"
#include "count_return.skel.h"
#include "generate_live.skel.h"
#include "xdp_drop_no_touch.skel.h"
#include "xdp_drop_read_data.skel.h"
#include "xdp_pass_no_touch.skel.h"
#include "xdp_redirect_map_swap_macs.skel.h"
#include "xdp_redirect_swap_macs.skel.h"
#include "xdp_tx_swap_macs.skel.h"
#include "xsk_rxdrop.skel.h"

#include "build_info.h"

enum {
	BARE_DROP,
	BARE_PASS,
	BARE_REDIRECT_MAP,
	BARE_TX,
	COUNT_RETURN,
	GENERATE_LIVE,
	XDP_DROP_NO_TOUCH,
	XDP_DROP_READ_DATA,
	XDP_PASS_NO_TOUCH,
	XDP_REDIRECT_MAP_SWAP_MACS,
	XDP_REDIRECT_SWAP_MACS,
	XDP_TX_SWAP_MACS,
	XSK_RXDROP,
};

#define PROGRAM(index, name)       \
	[index] = {                \
		#name,             \
		name##__elf_bytes, \
		SHA256_##name,     \
	}

const struct program programs[] = {
	PROGRAM(BARE_DROP, bare_drop),
	PROGRAM(BARE_PASS, bare_pass),
	PROGRAM(BARE_REDIRECT_MAP, bare_redirect_map),
	PROGRAM(BARE_TX, bare_tx),
	PROGRAM(COUNT_RETURN, count_return),
	PROGRAM(GENERATE_LIVE, generate_live),
	PROGRAM(XDP_DROP_NO_TOUCH, xdp_drop_no_touch),
	PROGRAM(XDP_DROP_READ_DATA, xdp_drop_read_data),
	PROGRAM(XDP_PASS_NO_TOUCH, xdp_pass_no_touch),
	PROGRAM(XDP_REDIRECT_MAP_SWAP_MACS, xdp_redirect_map_swap_macs),
	PROGRAM(XDP_REDIRECT_SWAP_MACS, xdp_redirect_swap_macs),
	PROGRAM(XDP_TX_SWAP_MACS, xdp_tx_swap_macs),
	PROGRAM(XSK_RXDROP, xsk_rxdrop),
};
const size_t programs_len = sizeof(programs) / sizeof(programs[0]);

#define CASE(text, in_role, index, ...) \
	{.name = text, .role = in_role, .program = &programs[index], __VA_ARGS__}

const struct test_case test_cases[] = {
	CASE("xdp.drop.no-touch", ROLE_SINK, XDP_DROP_NO_TOUCH),
	CASE("xdp.drop.read-data", ROLE_SINK, XDP_DROP_READ_DATA),
	CASE("xdp.pass.no-touch", ROLE_SINK, XDP_PASS_NO_TOUCH),
	CASE("xdp.tx.swap-macs", ROLE_FORWARD, XDP_TX_SWAP_MACS),
	CASE("xdp.redirect.swap-macs", ROLE_FORWARD, XDP_REDIRECT_SWAP_MACS, .egress = EGRESS_KNOB),
	CASE("xdp.redirect-map.swap-macs", ROLE_FORWARD, XDP_REDIRECT_MAP_SWAP_MACS,
	     .egress = EGRESS_MAP),
	CASE("xsk.rxdrop", ROLE_SINK, XSK_RXDROP, .sockets = true),
	CASE("bare.drop", ROLE_SINK, BARE_DROP, .bare = true),
	CASE("bare.tx.swap-macs", ROLE_FORWARD, BARE_TX, .bare = true),
	CASE("bare.redirect-map.swap-macs", ROLE_FORWARD, BARE_REDIRECT_MAP, .egress = EGRESS_MAP,
	     .bare = true),
};
const size_t test_cases_len = sizeof(test_cases) / sizeof(test_cases[0]);

const struct program *const program_generate_live = &programs[GENERATE_LIVE];
const struct program *const program_count_return = &programs[COUNT_RETURN];
const struct program *const program_pass = &programs[BARE_PASS];
const struct program *const program_drop = &programs[BARE_DROP];

const struct test_case *find_case(const char *name)
{
	for (size_t i = 0; i < test_cases_len; i++)
		if (!strcmp(test_cases[i].name, name))
			return &test_cases[i];
	return NULL;
}

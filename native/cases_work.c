// SPDX-License-Identifier: GPL-2.0-or-later
/* Packets with which some work is done, by a program or by an AF_XDP application. */
#include "work.h"
#include "xsk_app.h"
#include "xsk_work.h"

#define CASE(text, role, touch, more, ...)       \
	{                                        \
		.name = text "." #touch,         \
		.roles = ROLE_BIT(role),         \
		.sections = SECTION_WORK | more, \
		.work = &work_##touch,           \
		__VA_ARGS__,                     \
	}

#define IN_PROGRAM(op, touch) .program = PROGRAM(xdp_##touch, xdp_##op##_##touch)

#define XDP(op, touch, role) CASE("xdp." #op, role, touch, SECTION_XDP, IN_PROGRAM(op, touch))

/* The same program, and an application that finds nothing. */
#define BOUND(op, touch, role) \
	CASE("xdpxsk." #op, role, touch, SECTION_XSK, IN_PROGRAM(op, touch), .app = &xsk_rxdrop)

#define XSK(op, touch, role)                                                                       \
	CASE("xsk." #op, role, touch, SECTION_XSK, .program = PROGRAM(xsk_redirect, xsk_redirect), \
	     .app = &xsk_##op##_##touch)

#define SINK(touch) \
	XDP(drop, touch, ROLE_SINK), BOUND(drop, touch, ROLE_SINK), XSK(rxdrop, touch, ROLE_SINK)

#define FORWARD(touch)                                                \
	XDP(tx, touch, ROLE_FORWARD), BOUND(tx, touch, ROLE_FORWARD), \
		XSK(l2fwd, touch, ROLE_FORWARD)

const struct test_case cases_work[] = {
	SINK(mem),
	SINK(csum),
	SINK(fw),
	FORWARD(mem),
	FORWARD(csum),
	FORWARD(lb),
	FORWARD(lbfw),
	/* XDP drops, the application balances the rest. */
	CASE("xdpxsk.l2fwd", ROLE_FORWARD, lbfw, SECTION_XSK,
	     .program = PROGRAM(xsk_l2fwd_fw, xsk_l2fwd_fw), .app = &xsk_l2fwd_lb),
};
const size_t cases_work_len = sizeof(cases_work) / sizeof(cases_work[0]);

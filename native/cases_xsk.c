// SPDX-License-Identifier: GPL-2.0-or-later
/* Packets that go to AF_XDP sockets. */
#include "cases.h"
#include "rxdrop.h"

const struct test_case cases_xsk[] = {
	{
		.name = "xsk.rxdrop",
		.roles = ROLE_BIT(ROLE_SINK),
		.sections = SECTION_XSK,
		.program = PROGRAM(xsk_rxdrop, xsk_rxdrop),
		.app = &rxdrop_ops,
	},
};
const size_t cases_xsk_len = sizeof(cases_xsk) / sizeof(cases_xsk[0]);

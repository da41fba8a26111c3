// SPDX-License-Identifier: GPL-2.0-or-later
/* Packets that end in the stack, which drops them as soon as it sees that they are for others. */
#include "cases.h"
#include "local.h"

const struct test_case cases_local[] = {
	{.name = "stack.local", .roles = ROLE_BIT(ROLE_SINK), .app = &stack_local},
	{
		.name = "xsk.local.swap-macs",
		.roles = ROLE_BIT(ROLE_SINK),
		.sections = SECTION_XSK,
		.program = PROGRAM(xsk_redirect, xsk_redirect),
		.app = &xsk_local_swap_macs,
	},
};
const size_t cases_local_len = sizeof(cases_local) / sizeof(cases_local[0]);

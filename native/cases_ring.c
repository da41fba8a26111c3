// SPDX-License-Identifier: GPL-2.0-or-later
/* Rings in user space, without packets. */
#include "cases.h"
#include "ring_threads.h"

#define RING_CASE(NAME) {.name = NAME, .roles = ROLE_BIT(ROLE_RING), .sections = SECTION_RING}

const struct test_case cases_ring[] = {
	[RING_HEAD_TAIL] = RING_CASE("ring.head-tail"),
	[RING_PTR] = RING_CASE("ring.ptr-ring"),
	[RING_PTR_BATCH] = RING_CASE("ring.ptr-ring-batch"),
};
const size_t cases_ring_len = sizeof(cases_ring) / sizeof(cases_ring[0]);

// SPDX-License-Identifier: GPL-2.0-or-later
#include "cases.h"

#include <string.h>

static const struct {
	const struct test_case *cases;
	const size_t *len;
} tables[] = {
	{cases_xdp, &cases_xdp_len},       {cases_xsk, &cases_xsk_len},
	{cases_work, &cases_work_len},     {cases_local, &cases_local_len},
	{cases_packet, &cases_packet_len}, {cases_ring, &cases_ring_len},
};

const char *const role_names[] = {"sink", "forward", "transmit", "generate", "ring", NULL};

const struct test_case *case_at(size_t index)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		if (index < *tables[i].len)
			return &tables[i].cases[index];
		index -= *tables[i].len;
	}
	return NULL;
}

const struct test_case *find_case(const char *name)
{
	const struct test_case *test_case;

	for (size_t i = 0; (test_case = case_at(i)); i++)
		if (!strcmp(test_case->name, name))
			break;
	return test_case;
}

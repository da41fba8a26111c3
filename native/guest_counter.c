// SPDX-License-Identifier: GPL-2.0-or-later
#include "guest_counter.h"

#include <stdbool.h>
#include <stdlib.h>

#include "guest_symbols.h"
#include "guest_system.h"
#include "window.h"

static struct {
	uint64_t attached[SIDES];
	uint64_t generating;
} programs;

static uint64_t read_address(json_t *ready, const char *owner)
{
	json_t *address = json_object_get(json_object_get(ready, owner), "jited_addr");

	return json_is_string(address) ? strtoull(json_string_value(address), NULL, 16) : 0;
}

void guest_counter_note(enum side side, json_t *ready)
{
	programs.attached[side] = read_address(ready, "attach");
	if (side == SIDE_TESTER)
		programs.generating = read_address(ready, "generator");
}

static int fill(void)
{
	static bool filled;
	int result;

	if (filled)
		return 0;
	guest_say("read symbols");
	result = guest_symbols_save();
	if (!result)
		result = window_fill(GUEST_SYMBOLS);
	filled = !result;
	return result;
}

int guest_counter_arm(enum side receiver)
{
	const uint64_t added[] = {programs.attached[SIDE_DUT], programs.attached[SIDE_TESTER],
				  programs.generating};
	int result = fill();

	for (size_t i = 0; !result && i < sizeof(added) / sizeof(added[0]); i++)
		if (added[i])
			result = window_add(added[i]);
	if (result)
		return result;
	window_table.program = programs.attached[receiver];
	window_arm();
	return 0;
}

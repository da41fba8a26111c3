// SPDX-License-Identifier: GPL-2.0-or-later
#include "touch.h"

#include <string.h>

#include "memory.h"
#include "who.h"

#define LINE_SHIFT 6
#define CONTEXT_BITS 6
#define LINES_START (1 << 16)

_Static_assert(CONTEXTS_MAX <= 1 << CONTEXT_BITS, "a line has room for its context");

struct touched {
	uint64_t loads;
	uint64_t stores;
	uint64_t lines;
};

struct touch_function {
	uint64_t address;
	struct touched touched[CONTEXTS_MAX];
};

/* Pointers, because the code that QEMU makes holds them. */
static struct touch_function **functions;
static size_t functions_len, functions_size;

/* A hash table of what was touched, and in which packet last. */
struct line {
	const struct touch_function *function; /* NULL: a free place */
	uint64_t where;                        /* the line and the context */
	uint64_t packet;
};

static struct line *lines;
static size_t lines_len, lines_size;
static uint64_t packet;

/* The first whose address is not below. */
static size_t find_place(uint64_t address)
{
	size_t low = 0, high = functions_len;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (functions[middle]->address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct touch_function *touch_find(uint64_t address)
{
	size_t place = find_place(address);

	if (place < functions_len && functions[place]->address == address)
		return functions[place];
	if (functions_len == functions_size) {
		functions_size = functions_size ? 2 * functions_size : 1024;
		functions = memory_grow(functions, functions_size, sizeof(*functions));
	}
	memmove(&functions[place + 1], &functions[place],
		(functions_len - place) * sizeof(*functions));
	functions[place] = memory_get(1, sizeof(**functions));
	functions[place]->address = address;
	functions_len++;
	return functions[place];
}

static struct line *find_line(const struct touch_function *function, uint64_t where)
{
	uint64_t hash = ((uintptr_t)function ^ where) * 0x9e3779b97f4a7c15ULL;
	size_t i = (hash >> 32) & (lines_size - 1);

	while (lines[i].function && (lines[i].function != function || lines[i].where != where))
		i = (i + 1) & (lines_size - 1);
	return &lines[i];
}

static void grow_lines(void)
{
	struct line *old = lines;
	size_t old_size = lines_size;

	lines_size = old_size ? 2 * old_size : LINES_START;
	lines = memory_get(lines_size, sizeof(*lines));
	for (size_t i = 0; i < old_size; i++)
		if (old[i].function)
			*find_line(old[i].function, old[i].where) = old[i];
	free(old);
}

/* Whether the function touches the line for the first time in this packet. */
static bool is_new(const struct touch_function *function, uint64_t where)
{
	struct line *line;

	if (2 * lines_len >= lines_size)
		grow_lines();
	line = find_line(function, where);
	if (line->function && line->packet == packet)
		return false;
	lines_len += !line->function;
	*line = (struct line){function, where, packet};
	return true;
}

void touch_access(struct touch_function *function, unsigned int context, bool store,
		  uint64_t address, unsigned int len)
{
	struct touched *touched = &function->touched[context];
	uint64_t last = (address + len - 1) >> LINE_SHIFT;

	if (store)
		touched->stores++;
	else
		touched->loads++;
	for (uint64_t line = address >> LINE_SHIFT; line <= last; line++)
		touched->lines += is_new(function, line << CONTEXT_BITS | context);
}

void touch_begins_packet(void)
{
	packet++;
}

void touch_clear(void)
{
	for (size_t i = 0; i < functions_len; i++)
		memset(functions[i]->touched, 0, sizeof(functions[i]->touched));
	if (lines)
		memset(lines, 0, lines_size * sizeof(*lines));
	lines_len = 0;
	packet = 0;
}

void touch_print(FILE *file)
{
	for (size_t i = 0; i < functions_len; i++)
		for (unsigned int context = 0; context < CONTEXTS_MAX; context++) {
			const struct touched *touched = &functions[i]->touched[context];

			if (touched->loads + touched->stores)
				fprintf(file, "m %llx %u %llu %llu %llu\n",
					(unsigned long long)functions[i]->address, context,
					(unsigned long long)touched->loads,
					(unsigned long long)touched->stores,
					(unsigned long long)touched->lines);
		}
}

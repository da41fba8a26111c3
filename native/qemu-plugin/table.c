// SPDX-License-Identifier: GPL-2.0-or-later
#include "table.h"

#include <stddef.h>
#include <stdlib.h>

#include "guest.h"

/* A guest's kernel has some 200000; more than this is not a table. */
#define SYMBOLS_MAX (1 << 24)
#define ENTRY_STUB_ALIGN 8 /* of irq_entries_start: IDT_ALIGN is 8 or 16 */

static struct window_table table;
static uint64_t *symbols;

static int compare_addresses(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static int compare_marks(const void *a, const void *b)
{
	const struct window_mark *left = a, *right = b;

	return compare_addresses(&left->start, &right->start);
}

static const char *read_symbols(void)
{
	uint64_t *new;

	if (!table.symbols_len || table.symbols_len > SYMBOLS_MAX)
		return "it has no symbols";
	new = realloc(symbols, table.symbols_len * sizeof(*symbols));
	if (!new)
		return "there is no memory for its symbols";
	symbols = new;
	if (!guest_read(table.symbols, symbols, table.symbols_len * sizeof(*symbols)))
		return "its symbols cannot be read";
	qsort(symbols, table.symbols_len, sizeof(*symbols), compare_addresses);
	return NULL;
}

/* A page that the agent never wrote to is not there, so no more is read than was filled. */
const char *table_read(uint64_t address)
{
	const size_t head_len = offsetof(struct window_table, marks);

	if (!guest_read(address, &table, head_len))
		return "it cannot be read";
	if (table.magic != WINDOW_MAGIC || table.version != WINDOW_VERSION)
		return "agent and plugin are not of one build";
	if (table.marks_len > WINDOW_MARKS_MAX)
		return "it has too many marks";
	if (!guest_read(address + head_len, table.marks, table.marks_len * sizeof(table.marks[0])))
		return "its marks cannot be read";
	qsort(table.marks, table.marks_len, sizeof(table.marks[0]), compare_marks);
	return read_symbols();
}

enum window_mark_kind table_mark(uint64_t address)
{
	size_t low = 0, high = table.marks_len;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct window_mark *mark = &table.marks[middle];

		if (address < mark->start)
			high = middle;
		else if (address >= mark->end)
			low = middle + 1;
		else
			return (address - mark->start) % ENTRY_STUB_ALIGN ? 0 : mark->kind;
	}
	return 0;
}

uint64_t table_program(void)
{
	return table.program;
}

uint64_t table_function(uint64_t address)
{
	size_t low = 0, high = table.symbols_len;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (symbols[middle] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? symbols[low - 1] : 0;
}

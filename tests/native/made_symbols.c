// SPDX-License-Identifier: GPL-2.0-or-later
/* made_symbols FILE: what window_fill() finds in a file like /proc/kallsyms. */
#include <stdio.h>

#include "error.h"
#include "window.h"

int main(int argc, char **argv)
{
	const struct window_table *table = &window_table;

	if (argc != 2 || window_fill(argv[1])) {
		fprintf(stderr, "%s: %s: %s\n", failure.object, failure.step, failure.reason);
		return 1;
	}
	printf("symbols %llu\n", (unsigned long long)table->symbols_len);
	for (uint64_t i = 0; i < table->marks_len; i++)
		printf("mark %llx %llx %llu\n", (unsigned long long)table->marks[i].start,
		       (unsigned long long)table->marks[i].end,
		       (unsigned long long)table->marks[i].kind);
	return 0;
}

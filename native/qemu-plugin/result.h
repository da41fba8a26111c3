/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_RESULT_H
#define XDPREPRO_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "block.h"
#include "who.h"

/* The window that is open, and the file where it ends up. */
struct window {
	FILE *file;
	bool open;
	uint64_t id;
	const char *failed; /* the first reason why its counts are wrong */
	uint64_t totals[CONTEXTS_MAX];
};

/* False, with a line on stderr, where the file cannot be made. */
bool window_start(struct window *window, const char *path);

/* Say on stderr, and in the file, why a window that is expected will not come. */
void window_complain(struct window *window, const char *step, const char *reason);

void window_open_at(struct window *window, uint64_t id);
void window_fail(struct window *window, const char *reason);

/* Print the window and close it. One that failed says so and has no end. */
void window_print(struct window *window, const struct row *rows, size_t len, bool memory);

#endif

// SPDX-License-Identifier: GPL-2.0-or-later
#include "result.h"

#include <errno.h>
#include <string.h>

#include "qemu.h"
#include "touch.h"

#define NAME_SIZE 64

void window_complain(struct window *window, const char *step, const char *reason)
{
	fprintf(stderr, "xdprepro-count: window: %s: %s\n", step, reason);
	fprintf(window->file, "error %s: %s\n", step, reason);
	fflush(window->file);
}

bool window_start(struct window *window, const char *path)
{
	window->file = fopen(path, "we");
	if (!window->file) {
		fprintf(stderr, "xdprepro-count: %s: open: %s\n", path, strerror(errno));
		return false;
	}
	fprintf(window->file, "xdprepro-count 1 api %d\n", QEMU_INTERFACE);
	fflush(window->file);
	return true;
}

void window_open_at(struct window *window, uint64_t id)
{
	window->failed = NULL;
	if (window->open)
		window_fail(window, "opened while another was open");
	window->open = true;
	window->id = id;
	memset(window->totals, 0, sizeof(window->totals));
}

void window_fail(struct window *window, const char *reason)
{
	if (!window->failed)
		window->failed = reason;
}

static void print_rows(FILE *file, const struct row *rows, size_t len)
{
	for (size_t i = 0; i < len; i++)
		fprintf(file, "i %llx %llu %llu\n", (unsigned long long)rows[i].address,
			(unsigned long long)rows[i].context, (unsigned long long)rows[i].count);
}

static void print_contexts(const struct window *window)
{
	char name[NAME_SIZE];

	for (unsigned int i = 0; i < CONTEXTS_MAX; i++)
		if (window->totals[i]) {
			who_name(i, name, sizeof(name));
			fprintf(window->file, "context %u %s\n", i, name);
		}
}

static void print_totals(const struct window *window)
{
	for (unsigned int i = 0; i < CONTEXTS_MAX; i++)
		if (window->totals[i])
			fprintf(window->file, "total %u %llu\n", i,
				(unsigned long long)window->totals[i]);
}

void window_print(struct window *window, const struct row *rows, size_t len, bool memory)
{
	FILE *file = window->file;

	if (!window->open) {
		window_complain(window, "close", "none is open");
		return;
	}
	window->open = false;
	fprintf(file, "window %llu\n", (unsigned long long)window->id);
	if (window->failed) {
		window_complain(window, "count", window->failed);
	} else {
		print_contexts(window);
		print_rows(file, rows, len);
		if (memory)
			touch_print(file);
		print_totals(window);
		fprintf(file, "end %llu\n", (unsigned long long)window->id);
	}
	if (fflush(file))
		fprintf(stderr, "xdprepro-count: window: write: %s\n", strerror(errno));
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "guest_symbols.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "guest_channel.h"

#define KALLSYMS "/proc/kallsyms"
#define TYPE_OFFSET 17 /* in "ffffffff81000000 T name" and "ffffffffc0000000 t name\t[module]" */
#define PIECE_LEN 262144

static int copy_functions(FILE *from, FILE *to)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t len;

	while ((len = getline(&line, &size, from)) > 0)
		if (len > TYPE_OFFSET && strchr("tTwW", line[TYPE_OFFSET]))
			fwrite_unlocked(line, 1, len, to);
	free(line);
	return ferror(from) || ferror(to) ? fail(EIO, KALLSYMS, "copy") : 0;
}

int guest_symbols_save(void)
{
	FILE *from = fopen(KALLSYMS, "re");
	FILE *to = fopen(GUEST_SYMBOLS, "we");
	int result;

	if (!from)
		result = fail_hint(fail(errno, KALLSYMS, "open"),
				   "the kernel needs CONFIG_KALLSYMS");
	else if (!to)
		result = fail(errno, GUEST_SYMBOLS, "create");
	else
		result = copy_functions(from, to);
	if (from)
		fclose(from);
	if (to && fclose(to) && !result)
		result = fail(errno, GUEST_SYMBOLS, "write");
	return result;
}

/* Names of functions need no escapes; jansson would look at each of five million characters. */
static char *escape(const char *from, size_t len, char *to)
{
	for (size_t i = 0; i < len; i++) {
		if (from[i] != '\n' && from[i] != '\t') {
			*to++ = from[i];
			continue;
		}
		*to++ = '\\';
		*to++ = from[i] == '\n' ? 'n' : 't';
	}
	return to;
}

static int send_piece(const char *piece, size_t len, char *line)
{
	static const char head[] = "{\"kallsyms\":\"";
	static const char tail[] = "\"}\n";
	char *end = line;

	end = mempcpy(end, head, strlen(head));
	end = escape(piece, len, end);
	end = mempcpy(end, tail, strlen(tail));
	return channel_text(line, end - line);
}

static int send_pieces(FILE *file, char *piece)
{
	char *line = malloc(2 * PIECE_LEN + 64);
	size_t len;
	int result = line ? 0 : fail(ENOMEM, GUEST_SYMBOLS, "report");

	while (!result && (len = fread(piece, 1, PIECE_LEN, file)))
		result = send_piece(piece, len, line);
	free(line);
	return result;
}

int guest_symbols_report(void)
{
	FILE *file = fopen(GUEST_SYMBOLS, "re");
	char *piece = malloc(PIECE_LEN);
	int result = 0;

	if (!piece)
		result = fail(ENOMEM, GUEST_SYMBOLS, "report");
	else if (file)
		result = send_pieces(file, piece);
	free(piece);
	if (file)
		fclose(file);
	return result;
}

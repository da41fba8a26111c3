// SPDX-License-Identifier: GPL-2.0-or-later
#include "arguments.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	size_t offset;
} addresses[] = {
	{"arm=", offsetof(struct arguments, arm)},     {"open=", offsetof(struct arguments, open)},
	{"close=", offsetof(struct arguments, close)}, {"app=", offsetof(struct arguments, app)},
	{"table=", offsetof(struct arguments, table)},
};

#define ADDRESSES_LEN (sizeof(addresses) / sizeof(addresses[0]))

static uint64_t *find_address(struct arguments *arguments, size_t i)
{
	return (uint64_t *)((char *)arguments + addresses[i].offset);
}

static bool read_address(struct arguments *arguments, const char *argument)
{
	for (size_t i = 0; i < ADDRESSES_LEN; i++) {
		size_t len = strlen(addresses[i].name);
		char *end;

		if (strncmp(argument, addresses[i].name, len))
			continue;
		*find_address(arguments, i) = strtoull(argument + len, &end, 16);
		return !*end;
	}
	return false;
}

static bool read_argument(struct arguments *arguments, const char *argument)
{
	if (!strncmp(argument, "out=", strlen("out=")))
		arguments->out = strdup(argument + strlen("out="));
	else if (!strcmp(argument, "memory=on"))
		arguments->memory = true;
	else if (strcmp(argument, "memory=off"))
		return read_address(arguments, argument);
	return true;
}

static bool fail_argument(const char *argument, const char *reason)
{
	fprintf(stderr, "xdprepro-count: %s: read arguments: %s\n", argument, reason);
	return false;
}

bool arguments_read(struct arguments *arguments, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!read_argument(arguments, argv[i]))
			return fail_argument(argv[i], "unknown, or no hexadecimal address");
	if (!arguments->out)
		return fail_argument("out=", "missing");
	for (size_t i = 0; i < ADDRESSES_LEN; i++)
		if (!*find_address(arguments, i))
			return fail_argument(addresses[i].name, "missing");
	return true;
}

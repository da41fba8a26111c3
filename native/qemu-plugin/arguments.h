/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_ARGUMENTS_H
#define XDPREPRO_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

/* What `-plugin` says: the output file, and the addresses that `xdprepro-agent version` tells. */
struct arguments {
	const char *out;
	uint64_t arm;
	uint64_t open;
	uint64_t close;
	uint64_t app;
	uint64_t table;
	bool memory;
};

/* False, with a line on stderr, where one is missing, unknown or no address. */
bool arguments_read(struct arguments *arguments, int argc, char **argv);

#endif

// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory.h"

#include <stdio.h>
#include <unistd.h>

static void *check(void *memory)
{
	if (memory)
		return memory;
	fprintf(stderr, "xdprepro-count: memory: get: Cannot allocate memory\n");
	/* Not exit(), which would wait for this very thread. */
	_exit(1);
}

void *memory_get(size_t len, size_t size)
{
	return check(calloc(len, size));
}

void *memory_grow(void *memory, size_t len, size_t size)
{
	return check(reallocarray(memory, len, size));
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_BLOCK_H
#define XDPREPRO_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "who.h"

#define BLOCK_MAX 512 /* TCG_MAX_INSNS */

/*
 * Instructions that run in a row, until they are left: at the end, or before it by a fault. Only
 * how often each was left after so many instructions is counted while the guest runs; how often
 * each instruction ran follows from it.
 */
struct block {
	uint64_t *addresses;
	size_t len;
	int mark;
	bool user;
	struct block *next;
	uint64_t *left[CONTEXTS_MAX]; /* [context][instructions that ran, minus one] */
};

/* The one block of these instructions; never fails, as the guest cannot be told. */
struct block *block_find(const uint64_t *addresses, size_t len, int mark);

/* Count one run of the first `ran` instructions. */
void block_count(struct block *block, unsigned int context, size_t ran);

struct row {
	uint64_t address;
	uint64_t context;
	uint64_t count;
};

/* All counts since the last call, sorted by address and context; the caller frees them. */
struct row *block_take_rows(size_t *len);

#endif

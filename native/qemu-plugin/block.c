// SPDX-License-Identifier: GPL-2.0-or-later
#include "block.h"

#include <string.h>

#include "memory.h"

#define BUCKETS (1 << 16)
#define USER_END (1ULL << 63)

static struct block *buckets[BUCKETS];

static struct block **find_bucket(const uint64_t *addresses, size_t len)
{
	uint64_t hash = (addresses[0] + len) * 0x9e3779b97f4a7c15ULL; /* 2^64 / golden ratio */

	return &buckets[hash >> 48];
}

struct block *block_find(const uint64_t *addresses, size_t len, int mark)
{
	struct block **bucket = find_bucket(addresses, len);
	struct block *block;

	for (block = *bucket; block; block = block->next)
		if (block->len == len && block->mark == mark &&
		    !memcmp(block->addresses, addresses, len * sizeof(*addresses)))
			return block;
	block = memory_get(1, sizeof(*block));
	block->addresses = memory_get(len, sizeof(*addresses));
	memcpy(block->addresses, addresses, len * sizeof(*addresses));
	block->len = len;
	block->mark = mark;
	block->user = addresses[0] < USER_END;
	block->next = *bucket;
	*bucket = block;
	return block;
}

void block_count(struct block *block, unsigned int context, size_t ran)
{
	if (!block->left[context])
		block->left[context] = memory_get(block->len, sizeof(uint64_t));
	block->left[context][ran - 1]++;
}

struct rows {
	struct row *rows;
	size_t len;
	size_t size;
};

static void add_row(struct rows *rows, struct row row)
{
	if (rows->len == rows->size) {
		rows->size = rows->size ? 2 * rows->size : 1 << 16;
		rows->rows = memory_grow(rows->rows, rows->size, sizeof(row));
	}
	rows->rows[rows->len++] = row;
}

/* An instruction ran as often as the block was left after it. */
static void take_block(struct rows *rows, struct block *block, unsigned int context)
{
	uint64_t *left = block->left[context];
	uint64_t count = 0;

	if (!left)
		return;
	for (size_t i = block->len; i; i--) {
		count += left[i - 1];
		left[i - 1] = 0;
		if (count)
			add_row(rows, (struct row){block->addresses[i - 1], context, count});
	}
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	return left->context < right->context ? -1 : left->context > right->context;
}

/* An instruction can be in many blocks. */
static size_t merge_rows(struct row *rows, size_t len)
{
	size_t merged = 0;

	for (size_t i = 0; i < len; i++)
		if (merged && !compare_rows(&rows[merged - 1], &rows[i]))
			rows[merged - 1].count += rows[i].count;
		else
			rows[merged++] = rows[i];
	return merged;
}

struct row *block_take_rows(size_t *len)
{
	struct rows rows = {0};

	for (size_t i = 0; i < BUCKETS; i++)
		for (struct block *block = buckets[i]; block; block = block->next)
			for (unsigned int context = 0; context < CONTEXTS_MAX; context++)
				take_block(&rows, block, context);
	if (rows.len)
		qsort(rows.rows, rows.len, sizeof(*rows.rows), compare_rows);
	*len = merge_rows(rows.rows, rows.len);
	return rows.rows;
}

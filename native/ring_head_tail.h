/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The ring of AF_XDP: each side publishes an index once per batch, and keeps a copy of the other's,
 * which it reads anew only when the copy is not enough.
 */
#ifndef XDPREPRO_RING_HEAD_TAIL_H
#define XDPREPRO_RING_HEAD_TAIL_H

#include "ring.h"

/* How many entries of a batch there is room for. */
RING_INLINE uint32_t head_tail_reserve(struct ring *ring, struct ring_end *end)
{
	uint32_t room = end->level - (end->index - end->other);

	if (room < end->batch) {
		end->other = __atomic_load_n(&ring->consumed, __ATOMIC_ACQUIRE);
		room = end->level - (end->index - end->other);
	}
	return room < end->batch ? room : end->batch;
}

RING_INLINE uint32_t head_tail_put(struct ring *ring, struct ring_end *end)
{
	uint32_t n = head_tail_reserve(ring, end), index = end->index;
	uint64_t value = end->value;

	if (!n)
		return 0;
	for (uint32_t i = 0; i < n; i++, index++, value++) {
		struct ring_entry *entry = ring_slot(ring, index);

		entry->value = value;
		entry->check = ring_check(value);
	}
	end->index = index;
	end->value = value;
	__atomic_store_n(&ring->produced, index, __ATOMIC_RELEASE);
	return n;
}

/* How many entries of a batch may be taken. */
RING_INLINE uint32_t head_tail_peek(struct ring *ring, struct ring_end *end)
{
	int32_t there = end->other - end->index - end->level;

	if (there <= 0) {
		end->other = __atomic_load_n(&ring->produced, __ATOMIC_ACQUIRE);
		there = end->other - end->index - end->level;
	}
	if (there <= 0)
		return 0;
	return (uint32_t)there < end->batch ? (uint32_t)there : end->batch;
}

RING_INLINE uint32_t head_tail_take(struct ring *ring, struct ring_end *end)
{
	uint32_t n = head_tail_peek(ring, end), index = end->index;
	uint64_t due = end->value, errors = 0;

	if (!n)
		return 0;
	for (uint32_t i = 0; i < n; i++, index++) {
		const struct ring_entry *entry = ring_slot(ring, index);
		uint64_t value = entry->value;

		errors += ring_differs(due, value, entry->check);
		due = value + 1;
	}
	end->index = index;
	__atomic_store_n(&ring->consumed, index, __ATOMIC_RELEASE);
	ring_pass(end, due, errors);
	return n;
}

#endif

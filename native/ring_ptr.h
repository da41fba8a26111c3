/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The ring of the kernel's ptr_ring: no shared indices. A slot itself says whether it holds an
 * entry, so that the two sides meet only where the ring is nearly empty or nearly full.
 */
#ifndef XDPREPRO_RING_PTR_H
#define XDPREPRO_RING_PTR_H

#include "ring.h"

/* As many as ptr_ring.h empties at once: what fits into two cache lines. */
#define PTR_LAZY (2 * CACHE_LINE / (uint32_t)sizeof(struct ring_entry))

static inline bool ptr_is_full(const struct ring *ring, uint32_t index)
{
	return __atomic_load_n(&ring_slot(ring, index)->value, __ATOMIC_ACQUIRE);
}

/* One look once per batch: would the ring's level be above ours with the batch in it? */
static inline bool ptr_at_level(const struct ring *ring, const struct ring_end *end)
{
	return end->level < ring->size &&
	       ptr_is_full(ring, end->index + end->batch - 1 - end->level);
}

RING_INLINE uint32_t ptr_put(struct ring *ring, struct ring_end *end)
{
	uint32_t n = 0, batch = end->batch, index = end->index;
	uint64_t value = end->value;

	if (ptr_at_level(ring, end))
		return 0;
	for (; n < batch && !ptr_is_full(ring, index); n++, index++, value++) {
		struct ring_entry *entry = ring_slot(ring, index);

		entry->check = ring_check(value);
		__atomic_store_n(&entry->value, value, __ATOMIC_RELEASE);
	}
	end->index = index;
	end->value = value;
	return n;
}

/* Likewise: would it be below ours without the batch? */
static inline bool ptr_below_level(const struct ring *ring, const struct ring_end *end)
{
	return end->level && !ptr_is_full(ring, end->index + end->batch - 1 + end->level);
}

/* Read entries, and leave their slots as they are. */
RING_INLINE uint32_t ptr_read(struct ring *ring, struct ring_end *end)
{
	uint32_t n = 0, batch = end->batch, index = end->index;
	uint64_t due = end->value, errors = 0;

	if (ptr_below_level(ring, end))
		return 0;
	for (; n < batch; n++, index++) {
		const struct ring_entry *entry = ring_slot(ring, index);
		uint64_t value = __atomic_load_n(&entry->value, __ATOMIC_ACQUIRE);

		if (!value)
			break;
		errors += ring_differs(due, value, entry->check);
		due = value + 1;
	}
	end->index = index;
	ring_pass(end, due, errors);
	return n;
}

/* The release keeps the reads of the entry before it. */
static inline void ptr_empty(struct ring *ring, uint32_t index)
{
	__atomic_store_n(&ring_slot(ring, index)->value, 0, __ATOMIC_RELEASE);
}

RING_INLINE uint32_t ptr_take(struct ring *ring, struct ring_end *end)
{
	uint32_t n = ptr_read(ring, end), index = end->index;

	for (uint32_t i = n; i; i--)
		ptr_empty(ring, index - i);
	return n;
}

/*
 * Backwards: the producer waits for the first of these slots, and so stays out of the cache lines
 * until the last is written.
 */
RING_INLINE uint32_t ptr_take_lazily(struct ring *ring, struct ring_end *end)
{
	uint32_t n = ptr_read(ring, end), emptied = end->emptied;

	for (; end->index - emptied >= PTR_LAZY; emptied += PTR_LAZY)
		for (uint32_t i = PTR_LAZY; i; i--)
			ptr_empty(ring, emptied + i - 1);
	end->emptied = emptied;
	return n;
}

#endif

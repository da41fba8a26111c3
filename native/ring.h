/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_RING_H
#define XDPREPRO_RING_H

#include <stdbool.h>
#include <stdint.h>

#define RING_ALIGN 128 /* two cache lines, as neighbours are fetched in pairs */
#define CACHE_LINE 64
#define EIGHTHS 8

#define RING_INLINE static inline __attribute__((always_inline))

/* The size of a struct xdp_desc. In a ptr_ring, a value of 0 says that the slot is empty. */
struct ring_entry {
	uint64_t value; /* 1, 2, 3, ... */
	uint64_t check; /* ring_check() of it */
};

/* What both threads see. The two indices run freely; a ptr_ring does not use them. */
struct ring {
	struct ring_entry *entries;
	uint32_t size; /* a power of two */
	_Alignas(RING_ALIGN) uint32_t produced;
	_Alignas(RING_ALIGN) uint32_t consumed;
};

/* One thread's own view; others read the counters alone. */
struct ring_end {
	_Alignas(RING_ALIGN) uint32_t index; /* of the next entry */
	uint32_t other;                      /* the other end's index, as it was last read */
	uint32_t emptied;                    /* slots before this one are given back (lazily) */
	uint32_t level; /* producer: fill the ring so far; consumer: leave so many in it */
	uint32_t batch;
	uint32_t delay;   /* rounds of ring_delay() after each entry */
	uint64_t value;   /* of the next entry */
	uint64_t entries; /* counters: that went by */
	uint64_t idle;    /* rounds that found no room, or nothing */
	uint64_t errors;  /* entries other than the one that was due, or that never came */
	uint64_t occupancy[EIGHTHS];
};

static inline uint64_t ring_check(uint64_t value)
{
	return value * 0x9e3779b97f4a7c15ULL;
}

static inline struct ring_entry *ring_slot(const struct ring *ring, uint32_t index)
{
	return &ring->entries[index & (ring->size - 1)];
}

/* 1 if an entry is other than the one that is due. */
static inline uint64_t ring_differs(uint64_t due, uint64_t value, uint64_t check)
{
	return value != due || check != ring_check(value);
}

static inline void ring_delay(uint64_t rounds)
{
	for (; rounds; rounds--)
		__asm__ volatile("" : "+r"(rounds));
}

/* Set a counter of our own thread that others read. */
static inline void ring_count(uint64_t *counter, uint64_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

static inline uint64_t ring_counted(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* The consumer's next entry, whatever this one was. */
static inline void ring_pass(struct ring_end *end, uint64_t due, uint64_t errors)
{
	end->value = due;
	if (errors)
		ring_count(&end->errors, end->errors + errors);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The two threads of a ring benchmark; made for each kind of ring, so that nothing is called. */
#ifndef XDPREPRO_RING_LOOP_H
#define XDPREPRO_RING_LOOP_H

#include "ring.h"

#define OCCUPANCY_EVERY 64 /* batches; each look takes a cache line from the producer */

struct ring_bench {
	struct ring ring;
	struct ring_end producer;
	struct ring_end consumer;
	/* Read by both, written at the ends. */
	_Alignas(RING_ALIGN) uint64_t start_at; /* the consumer starts with so many in the ring */
	bool stop;
	bool stopped; /* by the producer: nothing more will come */
};

/* Put or take up to a batch; how many entries that were. */
typedef uint32_t (*ring_move)(struct ring *ring, struct ring_end *end);

static inline bool ring_flag(const bool *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

RING_INLINE void ring_produce(struct ring_bench *bench, ring_move put)
{
	struct ring_end *end = &bench->producer;

	while (!ring_flag(&bench->stop)) {
		uint32_t n = put(&bench->ring, end);

		if (!n) {
			ring_count(&end->idle, end->idle + 1);
			continue;
		}
		ring_count(&end->entries, end->entries + n);
		ring_delay((uint64_t)end->delay * n);
	}
	__atomic_store_n(&bench->stopped, true, __ATOMIC_RELEASE);
}

/* How full the ring was, as far as the producer had counted. */
static inline void ring_note_occupancy(struct ring_bench *bench)
{
	struct ring_end *end = &bench->consumer;
	int64_t held = ring_counted(&bench->producer.entries) - end->entries;
	int64_t eighth = held * EIGHTHS / bench->ring.size;

	if (eighth < 0)
		eighth = 0;
	if (eighth >= EIGHTHS)
		eighth = EIGHTHS - 1;
	ring_count(&end->occupancy[eighth], end->occupancy[eighth] + 1);
}

/* What is left in the ring after the stop. What was put in and never came out is an error, too. */
RING_INLINE void ring_empty_out(struct ring_bench *bench, ring_move take)
{
	struct ring_end *end = &bench->consumer;
	bool stopped;
	uint32_t n;

	end->level = 0;
	do {
		stopped = ring_flag(&bench->stopped);
		n = take(&bench->ring, end);
		ring_count(&end->entries, end->entries + n);
	} while (n || !stopped);
	if (bench->producer.entries > end->entries)
		ring_count(&end->errors, end->errors + bench->producer.entries - end->entries);
}

RING_INLINE void ring_consume(struct ring_bench *bench, ring_move take)
{
	struct ring_end *end = &bench->consumer;
	uint32_t batches = 0;

	while (ring_counted(&bench->producer.entries) < bench->start_at && !ring_flag(&bench->stop))
		;
	while (!ring_flag(&bench->stop)) {
		uint32_t n = take(&bench->ring, end);

		if (!n) {
			ring_count(&end->idle, end->idle + 1);
			continue;
		}
		if (++batches % OCCUPANCY_EVERY == 0)
			ring_note_occupancy(bench);
		ring_count(&end->entries, end->entries + n);
		ring_delay((uint64_t)end->delay * n);
	}
	ring_empty_out(bench, take);
}

#endif

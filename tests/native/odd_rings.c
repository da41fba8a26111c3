// SPDX-License-Identifier: GPL-2.0-or-later
/* Rings that are wrong on purpose, in the agent's own loops: how many errors those count. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ring_head_tail.h"
#include "ring_loop.h"
#include "ring_ptr.h"

#define SIZE 256
#define ENTRIES 100000
#define LONG 300 /* rounds of delay in which the other side does something */

/* An entry is never put in, and its value is used up. */
RING_INLINE uint32_t put_losing(struct ring *ring, struct ring_end *end)
{
	uint32_t n = head_tail_put(ring, end);

	end->value += n > 0 && end->value % 1000 < n;
	return n;
}

/* Some entries are put in once more. */
RING_INLINE uint32_t put_doubling(struct ring *ring, struct ring_end *end)
{
	uint32_t n = head_tail_put(ring, end);

	end->value -= n > 0 && end->value % 1000 < n;
	return n;
}

/* The consumer's index is never looked at. */
RING_INLINE uint32_t put_overrunning(struct ring *ring, struct ring_end *end)
{
	end->other = end->index;
	return head_tail_put(ring, end);
}

/* A slot is declared full before it is. */
RING_INLINE uint32_t put_too_soon(struct ring *ring, struct ring_end *end)
{
	struct ring_entry *entry = ring_slot(ring, end->index);

	if (ptr_is_full(ring, end->index))
		return 0;
	__atomic_store_n(&entry->value, end->value, __ATOMIC_RELEASE);
	ring_delay(LONG);
	__atomic_store_n(&entry->check, ring_check(end->value), __ATOMIC_RELEASE);
	end->index++;
	end->value++;
	return 1;
}

/* Entries are counted as produced and never published. */
RING_INLINE uint32_t put_nothing(struct ring *ring, struct ring_end *end)
{
	(void)ring;
	return end->batch;
}

#define RING(NAME, PUT, TAKE)                    \
	static void *NAME##_produce(void *bench) \
	{                                        \
		ring_produce(bench, PUT);        \
		return NULL;                     \
	}                                        \
	static void *NAME##_consume(void *bench) \
	{                                        \
		ring_consume(bench, TAKE);       \
		return NULL;                     \
	}

#define RINGS                                              \
	RING(head_tail, head_tail_put, head_tail_take)     \
	RING(ptr, ptr_put, ptr_take)                       \
	RING(ptr_lazily, ptr_put, ptr_take_lazily)         \
	RING(losing, put_losing, head_tail_take)           \
	RING(doubling, put_doubling, head_tail_take)       \
	RING(overrunning, put_overrunning, head_tail_take) \
	RING(too_soon, put_too_soon, ptr_take)             \
	RING(nothing, put_nothing, head_tail_take)

RINGS
#undef RING

static const struct {
	const char *name;
	void *(*produce)(void *bench);
	void *(*consume)(void *bench);
} rings[] = {
#define RING(NAME, PUT, TAKE) {#NAME, NAME##_produce, NAME##_consume},
	RINGS};

static void run(struct ring_bench *bench, size_t i)
{
	pthread_t producer, consumer;

	pthread_create(&producer, NULL, rings[i].produce, bench);
	pthread_create(&consumer, NULL, rings[i].consume, bench);
	while (ring_counted(&bench->producer.entries) < ENTRIES)
		usleep(1000);
	__atomic_store_n(&bench->stop, true, __ATOMIC_RELEASE);
	pthread_join(producer, NULL);
	pthread_join(consumer, NULL);
}

int main(int argc, char **argv)
{
	static struct ring_bench bench;

	bench.ring.size = bench.producer.level = SIZE;
	bench.ring.entries = calloc(SIZE, sizeof(struct ring_entry));
	bench.producer.batch = bench.consumer.batch = 16;
	bench.producer.value = bench.consumer.value = 1;
	bench.consumer.delay = 1; /* a producer that does not wait is faster */
	for (size_t i = 0; argc == 2 && i < sizeof(rings) / sizeof(rings[0]); i++)
		if (!strcmp(argv[1], rings[i].name))
			run(&bench, i);
	printf("{\"produced\": %llu, \"consumed\": %llu, \"errors\": %llu}\n",
	       (unsigned long long)bench.producer.entries,
	       (unsigned long long)bench.consumer.entries,
	       (unsigned long long)bench.consumer.errors);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "ring_threads.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "error.h"
#include "ring_head_tail.h"
#include "ring_ptr.h"
#include "thread.h"

#define CALIBRATE_ROUNDS 200000
#define CALIBRATE_TRIES 10

static void put_head_tail(struct ring_bench *bench)
{
	ring_produce(bench, head_tail_put);
}

static void take_head_tail(struct ring_bench *bench)
{
	ring_consume(bench, head_tail_take);
}

static void put_ptr(struct ring_bench *bench)
{
	ring_produce(bench, ptr_put);
}

static void take_ptr(struct ring_bench *bench)
{
	ring_consume(bench, ptr_take);
}

static void take_ptr_lazily(struct ring_bench *bench)
{
	ring_consume(bench, ptr_take_lazily);
}

static const struct {
	void (*produce)(struct ring_bench *bench);
	void (*consume)(struct ring_bench *bench);
} loops[] = {
	[RING_HEAD_TAIL] = {put_head_tail, take_head_tail},
	[RING_PTR] = {put_ptr, take_ptr},
	[RING_PTR_BATCH] = {put_ptr, take_ptr_lazily},
};

/* Rounds of ring_delay() that take DELAY_NS; the quickest try is the one that nothing disturbed. */
static uint32_t calibrate(void)
{
	int64_t shortest_ns = INT64_MAX;

	for (int i = 0; i < CALIBRATE_TRIES; i++) {
		int64_t start_ns = stamp_ns(), took_ns;

		ring_delay(CALIBRATE_ROUNDS);
		took_ns = stamp_ns() - start_ns;
		if (took_ns < shortest_ns)
			shortest_ns = took_ns;
	}
	return (uint64_t)DELAY_NS * CALIBRATE_ROUNDS / (shortest_ns ? shortest_ns : 1);
}

static void *run(void *argument)
{
	struct ring_thread *thread = argument;

	thread->cpu = sched_getcpu();
	if (thread->slower)
		thread->end->delay = calibrate();
	sem_post(&thread->threads->ready);
	while (sem_wait(&thread->threads->go))
		;
	thread->loop(&thread->threads->bench);
	thread->run_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

/*
 * The faster side alone decides how full the ring is: the producer by filling it no further, the
 * consumer by leaving so much in it. At its own end of the ring it just runs.
 */
static void set_levels(struct ring_bench *bench, const struct ring_spec *spec)
{
	uint32_t quarter = spec->size / 4;
	uint32_t level = quarter * (spec->fill + 1);

	bench->producer.level = spec->size;
	if (spec->faster == FASTER_PRODUCER && spec->fill != FILL_FULL)
		bench->producer.level = level;
	if (spec->faster == FASTER_CONSUMER && spec->fill != FILL_EMPTY)
		bench->consumer.level = level;
	if (spec->fill != FILL_EMPTY)
		bench->start_at = level - spec->batch;
}

static int create_bench(struct ring_bench *bench, const struct ring_spec *spec)
{
	size_t size = sizeof(struct ring_entry) * spec->size;
	struct ring_end *ends[] = {&bench->producer, &bench->consumer};

	bench->ring.size = spec->size;
	bench->ring.entries = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
	if (!bench->ring.entries)
		return fail(ENOMEM, "ring", "create");
	memset(bench->ring.entries, 0, size);
	for (int i = 0; i < 2; i++) {
		ends[i]->batch = spec->batch;
		ends[i]->value = 1;
	}
	set_levels(bench, spec);
	return 0;
}

static int start(struct ring_thread *thread, int cpu)
{
	int result = thread_start(&thread->thread, thread->key, cpu, run, thread);

	thread->started = !result;
	if (!result)
		while (sem_wait(&thread->threads->ready))
			;
	return result;
}

int ring_start(struct ring_threads *threads, enum ring_kind kind, const struct ring_spec *spec)
{
	struct ring_bench *bench = &threads->bench;
	int result;

	memset(threads, 0, sizeof(*threads));
	sem_init(&threads->ready, 0, 0);
	sem_init(&threads->go, 0, 0);
	threads->producer = (struct ring_thread){threads, loops[kind].produce, &bench->producer,
						 "ring.producer_cpu",
						 .slower = spec->faster == FASTER_CONSUMER};
	threads->consumer = (struct ring_thread){threads, loops[kind].consume, &bench->consumer,
						 "ring.consumer_cpu",
						 .slower = spec->faster == FASTER_PRODUCER};
	result = create_bench(bench, spec);
	if (!result)
		result = start(&threads->producer, spec->producer_cpu);
	if (!result)
		result = start(&threads->consumer, spec->consumer_cpu);
	if (result)
		ring_destroy(threads);
	return result;
}

void ring_go(struct ring_threads *threads)
{
	sem_post(&threads->go);
	sem_post(&threads->go);
}

int64_t ring_run_ns(const struct ring_thread *thread)
{
	clockid_t clock;

	if (!thread->started || pthread_getcpuclockid(thread->thread, &clock))
		return thread->run_ns;
	return clock_ns(clock);
}

void ring_stop(struct ring_threads *threads)
{
	struct ring_thread *both[] = {&threads->producer, &threads->consumer};

	__atomic_store_n(&threads->bench.stop, true, __ATOMIC_RELEASE);
	/* Those that never went go now, and end at once. */
	ring_go(threads);
	for (int i = 0; i < 2; i++) {
		if (both[i]->started)
			pthread_join(both[i]->thread, NULL);
		both[i]->started = false;
	}
}

void ring_destroy(struct ring_threads *threads)
{
	ring_stop(threads);
	free(threads->bench.ring.entries);
	sem_destroy(&threads->ready);
	sem_destroy(&threads->go);
}

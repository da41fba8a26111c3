/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_RING_THREADS_H
#define XDPREPRO_RING_THREADS_H

#include <pthread.h>
#include <semaphore.h>

#include "ring_loop.h"
#include "spec.h"

/* What the slower side's own work on an entry takes. */
#define DELAY_NS 50

enum ring_kind { RING_HEAD_TAIL, RING_PTR, RING_PTR_BATCH };

struct ring_threads;

struct ring_thread {
	struct ring_threads *threads;
	void (*loop)(struct ring_bench *bench);
	struct ring_end *end;
	const char *key; /* of the spec */
	int cpu;         /* that it runs on, once it is ready */
	bool slower;
	bool started;
	int64_t run_ns; /* on a CPU, once it has ended */
	pthread_t thread;
};

struct ring_threads {
	struct ring_bench bench;
	struct ring_thread producer;
	struct ring_thread consumer;
	sem_t ready; /* posted by each thread */
	sem_t go;    /* posted for each thread */
};

/* Both threads are there and wait for ring_go(). */
int ring_start(struct ring_threads *threads, enum ring_kind kind, const struct ring_spec *spec);
void ring_go(struct ring_threads *threads);

/* How long a thread ran on a CPU so far, calibration included. */
int64_t ring_run_ns(const struct ring_thread *thread);

/* End both, the consumer once the ring is empty. May be called twice. */
void ring_stop(struct ring_threads *threads);
void ring_destroy(struct ring_threads *threads);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_GENERATOR_H
#define XDPREPRO_GENERATOR_H

#include <jansson.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include "counters.h"
#include "error.h"
#include "load.h"
#include "pace.h"
#include "records.h"
#include "spec.h"

struct generator;
struct port;

/* What one thread did; written by that thread only. */
struct sent {
	uint64_t packets;
	uint64_t bytes;
	uint64_t errors;
	uint64_t due;      /* of a pace: frames that should have been sent */
	uint64_t late_ns;  /* and the longest that one was sent after it was due */
	uint64_t timeouts; /* of a closed loop */
} __attribute__((aligned(128)));

struct generator_thread {
	struct sent sent;
	struct sent taken; /* by the sampler */
	struct generator *generator;
	pthread_t thread;
	bool started;
	int cpu;
	uint64_t share;           /* frames to send; UINT64_MAX: until stopped */
	struct pace pace;         /* of threads that keep time themselves */
	const struct pace *paced; /* that, or the program's; NULL: as fast as it goes */
	struct closed_loop loop;
	int64_t ended_ns;      /* 0: it has not */
	void *state;           /* of the kind of generator */
	struct failure failed; /* reason[0]: the thread ended early */
};

/* How frames are sent. send() returns when told to stop, at its share, or with a failure. */
struct generator_ops {
	int (*create)(struct generator *generator);
	void (*destroy)(struct generator *generator);
	int (*send)(struct generator_thread *thread);
	void (*read_sent)(const struct generator_thread *thread, struct sent *sent);
};

extern const struct generator_ops generator_live_ops;
extern const struct generator_ops generator_packet_ops;

struct generator {
	const struct generator_spec *spec;
	const struct generator_ops *ops;
	const char *ifname;
	int ifindex;
	struct loaded program;      /* live frames */
	const struct records *back; /* what returns to the port */
	uint64_t step;              /* of a pace; 0: none */
	struct generator_thread *threads;
	size_t threads_len;
	sem_t go;
	bool stop;
	int64_t stopped_ns; /* 0: it was not told to */
	size_t running;     /* threads that have not ended */
	int event_fd;       /* readable once they all have */
	bool joined;
};

/* Threads are started here and wait for generator_go(). */
int generator_create(struct generator *generator, const struct generator_spec *spec,
		     const struct port *port);
void generator_destroy(struct generator *generator);

void generator_go(struct generator *generator);

/* Wait until every thread has ended; the first failure among them is ours. */
int generator_stop(struct generator *generator);

uint64_t generator_packets(const struct generator *generator);
json_t *generator_describe(const struct generator *generator);

/* The source `generator`; its context is a struct generator. */
int generator_take(void *generator);
int generator_read(const void *generator, struct counters *counters);

static inline bool generator_stopping(const struct generator *generator)
{
	return __atomic_load_n(&generator->stop, __ATOMIC_RELAXED);
}

/* Add to a counter of our own thread that others read. */
static inline void sent_add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

#endif

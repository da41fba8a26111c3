/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_RXDROP_H
#define XDPREPRO_RXDROP_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>

#include "counters.h"
#include "load.h"
#include "xsk.h"

/* What the loop did on one socket; written by its thread only. */
struct rxdrop_counters {
	uint64_t rx_packets;
	uint64_t rx_bytes;
	uint64_t empty_polls;
	uint64_t wakeups;
	uint64_t fill_fails;
} __attribute__((aligned(128)));

/* One thread that takes frames from all sockets and gives them straight back. */
struct rxdrop {
	struct rxdrop_counters counters[MAX_QUEUES];
	struct rxdrop_counters taken[MAX_QUEUES]; /* by the sampler */
	struct xsk sockets[MAX_QUEUES];
	size_t len;
	const struct xsk_spec *spec;
	pthread_t thread;
	bool started;
	bool stop;
};

/* Bind a socket on every queue of the spec and put it into the program's map. */
int rxdrop_create(struct rxdrop *rxdrop, const char *ifname, const struct xsk_spec *spec,
		  const struct loaded *program);
void rxdrop_destroy(struct rxdrop *rxdrop);

int rxdrop_start(struct rxdrop *rxdrop);

/* The protocol's `xsk`: one object a socket, read back from the kernel. */
int rxdrop_verify(const struct rxdrop *rxdrop, json_t **list);

/* The sources `xsk_app` and `xsk`; their context is a struct rxdrop. */
int rxdrop_take(void *rxdrop);
int rxdrop_read(const void *rxdrop, struct counters *counters);
int rxdrop_read_statistics(const void *rxdrop, struct counters *counters);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_WORK_STATE_H
#define XDPREPRO_WORK_STATE_H

#include <jansson.h>
#include <stdbool.h>

#include "../bpf/record.h"
#include "../bpf/work_lb.h"
#include "../bpf/work_mem.h"
#include "counters.h"
#include "flow_table.h"
#include "load.h"
#include "spec.h"

/* What a work is made of. */
enum {
	WORK_LINES = 1 << 0,      /* a working set */
	WORK_ITERATIONS = 1 << 1, /* checksums */
	WORK_ACL = 1 << 2,        /* flows that are dropped */
	WORK_SESSIONS = 1 << 3,   /* flows that have a backend */
	WORK_SHARE = 1 << 4,      /* of the flows are in the ACL */
};

struct work {
	const char *name;
	unsigned int parts;
};

extern const struct work work_mem, work_csum, work_fw, work_lb, work_lbfw;

#define WORK_BACKENDS (WORK_SERVICES * WORK_BACKENDS_MAX)

/* What one thread of an application works with. */
struct work_thread {
	struct worker own;
	struct work_state *state;
	struct work_thread *next;
};

/* The tables, of which the program's maps get a copy. */
struct work_state {
	const struct work *work;
	const struct work_spec *spec;
	struct flow_table acl;
	struct flow_table sessions;
	struct flow_table services; /* to the number of the first backend */
	struct backend backends[WORK_BACKENDS];
	struct line *lines; /* NULL until an application asks for a thread */
	struct work_thread *threads;
	struct {
		struct worker *workers; /* mapped; NULL: the program has none */
		struct line *lines;
	} program;
};

int work_create(struct work_state **state, const struct work *work, const struct work_spec *spec);
void work_destroy(struct work_state *state);

/* Before the program is loaded: its knobs, and the sizes of its maps, as far as
 * it has them. */
int work_prepare(const void *state, struct bpf_object *object);

/* After it was loaded: fill those of the maps that it has. */
int work_fill_maps(struct work_state *state, const struct loaded *program);

/* Another thread of an application; NULL after fail(). It lasts as long as the
 * state. */
struct work_thread *work_add_thread(struct work_state *state);

void work_unmap(struct work_state *state);

/* The tables' contents, from the seed. */
int work_fill_acl(struct work_state *state);
int work_fill_sessions(struct work_state *state);

/* The protocol's `work`: entries of the tables, sizes of the maps. */
json_t *work_describe(const struct work_state *state, const struct loaded *program);

/* The source `work`: what was done by program and application. */
int work_read(const void *state, struct counters *counters);

/* The backend of a flow that has no session yet; -1: it is for no service. */
int work_add_session(struct work_thread *thread, const struct flow *flow);

/* Add to a counter of the own thread that others read. */
static inline void work_count(__u64 *counter)
{
	__atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
}

#endif

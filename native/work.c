// SPDX-License-Identifier: GPL-2.0-or-later
#include "work.h"

#include <errno.h>
#include <stdlib.h>

#include "error.h"
#include "pages.h"

const struct work work_mem = {"mem", WORK_LINES};
const struct work work_csum = {"csum", WORK_ITERATIONS};
const struct work work_fw = {"fw", WORK_ACL};
const struct work work_lb = {"lb", WORK_SESSIONS};
const struct work work_lbfw = {"lbfw", WORK_ACL | WORK_SESSIONS | WORK_SHARE};

static size_t lines_size(const struct work_spec *spec)
{
	return spec->lines * sizeof(struct line);
}

/* A process that asks for more than there is is not refused but killed, in the end. */
static int check_memory(const struct work_spec *spec)
{
	size_t wanted_kib = lines_size(spec) / 1024, available_kib;

	if (!pages_available_kib(&available_kib) || wanted_kib <= available_kib)
		return 0;
	return fail_hint(fail_because(ENOMEM, "working set", "create",
				      "%zu KiB are asked for, %zu KiB are available", wanted_kib,
				      available_kib),
			 "set fewer lines");
}

static int fill_tables(struct work_state *state)
{
	int result = check_memory(state->spec);

	if (!result && state->work->parts & WORK_ACL)
		result = work_fill_acl(state);
	if (!result && state->work->parts & WORK_SESSIONS)
		result = work_fill_sessions(state);
	return result;
}

int work_create(struct work_state **state, const struct work *work, const struct work_spec *spec)
{
	struct work_state *new = calloc(1, sizeof(*new));
	int result;

	*state = NULL;
	if (!new)
		return fail(ENOMEM, work->name, "create work");
	new->work = work;
	new->spec = spec;
	result = fill_tables(new);
	if (result)
		work_destroy(new);
	else
		*state = new;
	return result;
}

void work_destroy(struct work_state *state)
{
	if (!state)
		return;
	work_unmap(state);
	for (struct work_thread *thread = state->threads, *next; thread; thread = next) {
		next = thread->next;
		free(thread);
	}
	if (state->lines)
		pages_destroy(state->lines, lines_size(state->spec));
	flow_table_destroy(&state->acl);
	flow_table_destroy(&state->sessions);
	flow_table_destroy(&state->services);
	free(state);
}

static int create_lines(struct work_state *state)
{
	if (state->lines || !(state->work->parts & WORK_LINES))
		return 0;
	state->lines = pages_create(lines_size(state->spec));
	return state->lines ? 0 : fail(errno, "working set", "create");
}

struct work_thread *work_add_thread(struct work_state *state)
{
	struct work_thread *thread;
	uint64_t number = 0;

	if (create_lines(state))
		return NULL;
	thread = aligned_alloc(_Alignof(struct work_thread), sizeof(*thread));
	if (!thread) {
		fail(ENOMEM, state->work->name, "create thread");
		return NULL;
	}
	for (const struct work_thread *other = state->threads; other; other = other->next)
		number++;
	*thread = (struct work_thread){
		.own.random = WORKER_SEED(state->spec->seed, number),
		.state = state,
		.next = state->threads,
	};
	state->threads = thread;
	return thread;
}

int work_add_session(struct work_thread *thread, const struct flow *flow)
{
	struct work_state *state = thread->state;
	struct flow service = work_service(flow);
	int first = flow_table_find(&state->services, &service);
	int chosen;

	if (first < 0)
		return -1;
	chosen = work_choose(flow, first, state->spec->backends);
	if (flow_table_add(&state->sessions, flow, chosen))
		work_count(&thread->own.refused_sessions);
	else
		work_count(&thread->own.new_sessions);
	return chosen;
}

static uint64_t load(const __u64 *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void add_worker(struct worker *sum, const struct worker *worker)
{
	sum->new_sessions += load(&worker->new_sessions);
	sum->refused_sessions += load(&worker->refused_sessions);
}

static uint64_t sum_lines(const struct line *lines, size_t len)
{
	uint64_t sum = 0;

	for (size_t i = 0; lines && i < len; i++)
		sum += load(&lines[i].packets);
	return sum;
}

static int read_sessions(const struct work_state *state, struct counters *counters)
{
	struct worker sum = {0};
	int result;

	for (int cpu = 0; state->program.workers && cpu < RECORD_CPUS; cpu++)
		add_worker(&sum, &state->program.workers[cpu]);
	for (const struct work_thread *thread = state->threads; thread; thread = thread->next)
		add_worker(&sum, &thread->own);
	result = counters_set(counters, sum.new_sessions, "new_sessions");
	return result ? result : counters_set(counters, sum.refused_sessions, "refused_sessions");
}

int work_read(const void *context, struct counters *counters)
{
	const struct work_state *state = context;
	uint64_t packets = sum_lines(state->lines, state->spec->lines) +
			   sum_lines(state->program.lines, state->spec->lines);

	if (state->work->parts & WORK_LINES)
		return counters_set(counters, packets, "line_packets");
	return state->work->parts & WORK_SESSIONS ? read_sessions(state, counters) : 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "who.h"

#include <stdio.h>

#include "memory.h"

#define NEST_MAX 16
#define TASKS_MAX 4096

enum layer_kind { LAYER_POLL, LAYER_INTERRUPT, LAYER_EXCEPTION };

struct layer {
	enum layer_kind kind;
	unsigned int context;
	uint64_t ends; /* a poll: the address it returns to; else the stack at entry */
};

struct task {
	uint64_t address;
	bool app;
	unsigned int depth;
	struct layer nest[NEST_MAX];
};

static struct task *tasks[TASKS_MAX];
static unsigned int tasks_len;
static struct task *running;
static struct task *generator;

static uint64_t polled[CONTEXTS_MAX]; /* by context: the NAPI instance */
static unsigned int contexts_len = CONTEXT_POLL;
static const char *failed;

const char *who_failed(void)
{
	return failed;
}

void who_fail(const char *reason)
{
	if (!failed)
		failed = reason;
}

static struct task *find_task(uint64_t address)
{
	for (unsigned int i = 0; i < tasks_len; i++)
		if (tasks[i]->address == address)
			return tasks[i];
	if (tasks_len == TASKS_MAX) {
		who_fail("too many tasks");
		return tasks[0];
	}
	tasks[tasks_len] = memory_get(1, sizeof(struct task));
	tasks[tasks_len]->address = address;
	return tasks[tasks_len++];
}

/* Which task runs when counting is armed is told by the first switch away from it. */
static struct task *find_running(void)
{
	if (!running)
		running = find_task(0);
	return running;
}

unsigned int who_runs(void)
{
	const struct task *task = find_running();

	for (unsigned int i = task->depth; i; i--)
		if (task->nest[i - 1].kind != LAYER_EXCEPTION)
			return task->nest[i - 1].context;
	if (task == generator)
		return CONTEXT_GENERATOR;
	return task->app ? CONTEXT_APP : CONTEXT_REST;
}

void who_name(unsigned int context, char *text, unsigned int size)
{
	static const char *const names[] = {
		[CONTEXT_GENERATOR] = "generator",
		[CONTEXT_APP] = "app",
		[CONTEXT_REST] = "rest",
		[CONTEXT_INTERRUPT] = "interrupt",
	};

	if (context < CONTEXT_POLL)
		snprintf(text, size, "%s", names[context]);
	else
		snprintf(text, size, "poll %llx", (unsigned long long)polled[context]);
}

void who_opens(void)
{
	for (unsigned int i = 0; i < tasks_len; i++)
		tasks[i]->app = false;
	generator = find_running();
	generator->depth = 0;
}

void who_is_app(void)
{
	find_running()->app = true;
}

void who_switches(uint64_t before, uint64_t after)
{
	if (!find_running()->address)
		running->address = before;
	if (running->address != before)
		who_fail("a switch of tasks was not seen");
	running = find_task(after);
}

/* A new task may have the address of one that ended. */
void who_starts(void)
{
	find_running()->depth = 0;
}

bool who_nests(void)
{
	return find_running()->depth;
}

void who_runs_user_code(void)
{
	find_running()->depth = 0;
}

static void push(enum layer_kind kind, unsigned int context, uint64_t ends)
{
	struct task *task = find_running();

	if (task->depth == NEST_MAX)
		who_fail("interrupts and polls nest too deep");
	else
		task->nest[task->depth++] = (struct layer){kind, context, ends};
}

static unsigned int find_poll(uint64_t napi)
{
	for (unsigned int i = CONTEXT_POLL; i < contexts_len; i++)
		if (polled[i] == napi)
			return i;
	if (contexts_len == CONTEXTS_MAX) {
		who_fail("too many NAPI instances");
		return CONTEXT_POLL;
	}
	polled[contexts_len] = napi;
	return contexts_len++;
}

void who_polls(uint64_t napi, uint64_t return_address)
{
	push(LAYER_POLL, find_poll(napi), return_address);
}

uint64_t who_awaits(void)
{
	const struct task *task = find_running();
	const struct layer *top = task->depth ? &task->nest[task->depth - 1] : NULL;

	return top && top->kind == LAYER_POLL ? top->ends : 0;
}

void who_returns(void)
{
	find_running()->depth--;
}

void who_enters_interrupt(uint64_t stack)
{
	push(LAYER_INTERRUPT, CONTEXT_INTERRUPT, stack);
}

void who_enters_exception(uint64_t stack)
{
	push(LAYER_EXCEPTION, CONTEXT_REST, stack);
}

/*
 * Some exceptions have an error code on the stack when they enter, and all have taken it off when
 * they leave. An iret that serializes (sync_core()) belongs to no layer.
 */
void who_leaves(uint64_t stack)
{
	struct task *task = find_running();

	for (unsigned int i = task->depth; i; i--) {
		const struct layer *layer = &task->nest[i - 1];

		if (layer->kind != LAYER_POLL &&
		    (layer->ends == stack || layer->ends + sizeof(uint64_t) == stack)) {
			task->depth = i - 1;
			return;
		}
	}
}

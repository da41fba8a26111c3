/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_WHO_H
#define XDPREPRO_WHO_H

#include <stdbool.h>
#include <stdint.h>

/*
 * For whom the vCPU works: a task, or what runs on top of it. Interrupts and polls nest (a poll
 * runs on the way out of an interrupt, an interrupt comes during a poll), and a task that is
 * preempted keeps its nest until it runs again.
 */
enum context {
	CONTEXT_GENERATOR,
	CONTEXT_APP,
	CONTEXT_REST,
	CONTEXT_INTERRUPT,
	CONTEXT_POLL, /* the first of them, one for each NAPI instance */
	CONTEXTS_MAX = 64,
};

unsigned int who_runs(void);

/* How the context is called in the output, without its number. */
void who_name(unsigned int context, char *text, unsigned int size);

/* What cannot be told apart any more; NULL: nothing. It lasts: all that follows is wrong, too. */
const char *who_failed(void);
void who_fail(const char *reason);

/* The task that runs is the generator, and nothing is on top of it; no task is the application. */
void who_opens(void);
void who_is_app(void);

void who_switches(uint64_t before, uint64_t after);
void who_starts(void);

/* Whether anything is on top of the task. Code of the user ends it all, also what was seen only in
 * part. */
bool who_nests(void);
void who_runs_user_code(void);

void who_polls(uint64_t napi, uint64_t return_address);

/* The code that a poll on top returns to, 0: none is there. */
uint64_t who_awaits(void);
void who_returns(void);

void who_enters_interrupt(uint64_t stack);
void who_enters_exception(uint64_t stack);

/* An iret took its frame from here. */
void who_leaves(uint64_t stack);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_WINDOW_H
#define XDPREPRO_WINDOW_H

#include <stdint.h>

/*
 * The window in which the instruction counter (qemu-plugin/) counts. It knows these functions and
 * the table by their addresses, which are fixed because the agent is static and not position
 * independent; elsewhere than in its guest they do nothing.
 */

/* The counter reads the table and instruments all code. Again: it reads the table anew. */
void window_arm(void);

/* The calling thread is the generator, until window_close() in any process. */
void window_open(uint64_t id);
void window_close(void);

/* The calling thread is the application; told anew in every window. */
void window_app(void);

#define WINDOW_MAGIC 0x6f72706572706478ULL
#define WINDOW_VERSION 1
#define WINDOW_MARKS_MAX 256

/* Where the counter learns who runs. All but interrupts stand at the first address only. */
enum window_mark_kind {
	WINDOW_POLL = 1,  /* a driver's NAPI poll; its first argument is the instance */
	WINDOW_INTERRUPT, /* entry code, ended by iret */
	WINDOW_EXCEPTION, /* likewise, but work of the context that caused it */
	WINDOW_SWITCH,    /* __switch_to(before, after) */
	WINDOW_FORK,      /* where a new task starts */
};

struct window_mark {
	uint64_t start;
	uint64_t end;
	uint64_t kind;
};

/* Only 64-bit members: the plugin reads it out of the guest's memory. */
struct window_table {
	uint64_t magic;
	uint64_t version;
	uint64_t
		program; /* first address of the receiver's program, 0: none; for the memory pass */
	uint64_t symbols; /* address of an array: where kernel functions start, in no order */
	uint64_t symbols_len;
	uint64_t marks_len;
	struct window_mark marks[WINDOW_MARKS_MAX];
};

extern struct window_table window_table;

/*
 * Fill all but `program` from /proc/kallsyms or a copy of it. Modules must be loaded before it is
 * read.
 */
int window_fill(const char *kallsyms);

/* One more function, such as a BPF program that came later. */
int window_add(uint64_t address);

#endif

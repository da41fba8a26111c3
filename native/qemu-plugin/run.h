/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_RUN_H
#define XDPREPRO_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "result.h"
#include "table.h"

/* What the code at an address means to us: one of the table's marks, or one of these. */
enum run_mark {
	MARK_NONE = 0,
	MARK_ARM = WINDOW_FORK + 1,
	MARK_OPEN,
	MARK_CLOSE,
	MARK_APP,
	MARK_IRET,
	MARK_PROGRAM,
	MARKS_LEN,
};

/* Written by the guest's own code, without a call. */
struct progress {
	uint64_t ran;   /* instructions of the block, so far */
	uint64_t total; /* instructions since counting was armed */
};

extern struct window window;

/*
 * Callbacks of the guest's code as it runs: a block begins (with registers to read, where it has a
 * mark), and an instruction of a function accessed memory.
 */
void run_block(unsigned int vcpu, void *block);
void run_marked_block(unsigned int vcpu, void *block);
void run_access(unsigned int vcpu, uint32_t access, uint64_t address, void *function);

/* The code that is counted is made anew: no block runs. */
void run_start(const struct progress *progress, bool memory_pass);

/* What the marker of the same name does; elsewhere, as translation is its matter. */
void see_arm(void);

#endif

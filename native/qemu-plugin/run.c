// SPDX-License-Identifier: GPL-2.0-or-later
#include "run.h"

#include <stdlib.h>

#include "block.h"
#include "guest.h"
#include "qemu.h"
#include "touch.h"
#include "who.h"

struct window window;

static const struct progress *progress;
static bool memory_pass;
static struct block *current;
static uint64_t total_told; /* of progress->total, added to a context */

/* What who.h said last. */
static unsigned int context = CONTEXT_REST;
static uint64_t awaited;
static bool nested;

static bool in_iret;
static uint64_t iret_stack;

void run_start(const struct progress *written, bool counts_memory)
{
	progress = written;
	memory_pass = counts_memory;
	current = NULL;
}

static void tell_total(void)
{
	window.totals[context] += progress->total - total_told;
	total_told = progress->total;
}

static void look_who_runs(void)
{
	tell_total();
	context = who_runs();
	awaited = who_awaits();
	nested = who_nests();
}

static void leave(void)
{
	if (!current || !window.open)
		return;
	if (progress->ran && progress->ran <= current->len)
		block_count(current, context, progress->ran);
	else
		window_fail(&window, "a block was left after more instructions than it has");
}

static void end_iret(void)
{
	in_iret = false;
	who_leaves(iret_stack);
	look_who_runs();
}

void run_block(unsigned int vcpu, void *entered)
{
	struct block *block = entered;

	(void)vcpu;
	leave();
	current = block;
	if (in_iret)
		end_iret();
	if (block->addresses[0] == awaited) {
		who_returns();
		look_who_runs();
	}
	if (nested && block->user) {
		who_runs_user_code();
		look_who_runs();
	}
}

static uint64_t read_register(enum guest_register which)
{
	uint64_t value = 0;

	if (!guest_register(which, &value))
		who_fail("a register cannot be read");
	return value;
}

static void see_poll(void)
{
	uint64_t return_address = 0;

	if (!guest_read(read_register(REGISTER_STACK), &return_address, sizeof(return_address)))
		who_fail("the stack of a poll cannot be read");
	who_polls(read_register(REGISTER_ARGUMENT_1), return_address);
}

static void see_interrupt(void)
{
	who_enters_interrupt(read_register(REGISTER_STACK));
}

static void see_exception(void)
{
	who_enters_exception(read_register(REGISTER_STACK));
}

static void see_switch(void)
{
	who_switches(read_register(REGISTER_ARGUMENT_1), read_register(REGISTER_ARGUMENT_2));
}

/* The layer ends after the instruction, which still belongs to it. */
static void see_iret(void)
{
	in_iret = true;
	iret_stack = read_register(REGISTER_STACK);
}

static void see_open(void)
{
	who_opens();
	touch_clear();
	tell_total();
	window_open_at(&window, read_register(REGISTER_ARGUMENT_1));
	if (memory_pass && !table_program())
		window_fail(&window, "the memory pass was not told the DUT's program");
}

static void see_close(void)
{
	size_t len;
	struct row *rows = block_take_rows(&len);

	tell_total();
	if (who_failed())
		window_fail(&window, who_failed());
	window_print(&window, rows, len, memory_pass);
	free(rows);
}

static void (*const see[MARKS_LEN])(void) = {
	[WINDOW_POLL] = see_poll,
	[WINDOW_INTERRUPT] = see_interrupt,
	[WINDOW_EXCEPTION] = see_exception,
	[WINDOW_SWITCH] = see_switch,
	[WINDOW_FORK] = who_starts,
	[MARK_ARM] = see_arm,
	[MARK_OPEN] = see_open,
	[MARK_CLOSE] = see_close,
	[MARK_APP] = who_is_app,
	[MARK_IRET] = see_iret,
	[MARK_PROGRAM] = touch_begins_packet,
};

void run_marked_block(unsigned int vcpu, void *entered)
{
	const struct block *block = entered;

	run_block(vcpu, entered);
	see[block->mark]();
	look_who_runs();
}

void run_access(unsigned int vcpu, uint32_t access, uint64_t address, void *function)
{
	(void)vcpu;
	if (window.open)
		touch_access(function, context, qemu_plugin_mem_is_store(access), address,
			     1 << qemu_plugin_mem_size_shift(access));
}

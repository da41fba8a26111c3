// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Count each instruction that a guest executes in a window, by its address and by who ran it. While
 * the guest boots, only the markers of the agent are watched.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "block.h"
#include "guest.h"
#include "qemu.h"
#include "result.h"
#include "table.h"
#include "touch.h"
#include "who.h"

enum mark {
	MARK_NONE = 0, /* then the marks of the table */
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

QEMU_EXPORT int qemu_plugin_version = QEMU_INTERFACE;

static qemu_plugin_id_t plugin;
static struct arguments arguments;
static struct qemu_plugin_scoreboard *score;
static const struct progress *progress;
static bool armed;
static struct window window;

static struct block *current;
static unsigned int context = CONTEXT_REST;
static uint64_t total_told; /* of progress->total, added to a context */
static uint64_t awaited;
static bool nested;
static bool in_iret;
static uint64_t iret_stack;

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

static void enter(unsigned int vcpu, void *entered)
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

static void see_poll(void)
{
	uint64_t return_address = 0;

	if (!guest_read(guest_register(REGISTER_STACK), &return_address, sizeof(return_address)))
		window_fail(&window, "the stack of a poll cannot be read");
	who_polls(guest_register(REGISTER_ARGUMENT_1), return_address);
}

static void see_interrupt(void)
{
	who_enters_interrupt(guest_register(REGISTER_STACK));
}

static void see_exception(void)
{
	who_enters_exception(guest_register(REGISTER_STACK));
}

static void see_switch(void)
{
	who_switches(guest_register(REGISTER_ARGUMENT_1), guest_register(REGISTER_ARGUMENT_2));
}

/* The layer ends after the instruction, which may also fault. */
static void see_iret(void)
{
	in_iret = true;
	iret_stack = guest_register(REGISTER_STACK);
}

static void see_open(void)
{
	who_opens();
	touch_clear();
	tell_total();
	window_open_at(&window, guest_register(REGISTER_ARGUMENT_1));
	if (arguments.memory && !table_program())
		window_fail(&window, "the memory pass was not told the DUT's program");
}

static void see_close(void)
{
	size_t len;
	struct row *rows = block_take_rows(&len);

	tell_total();
	if (who_failed())
		window_fail(&window, who_failed());
	window_print(&window, rows, len, arguments.memory);
	free(rows);
}

static void see_arm(void);

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

static void enter_marked(unsigned int vcpu, void *entered)
{
	struct block *block = entered;

	enter(vcpu, block);
	see[block->mark]();
	look_who_runs();
}

static void access_memory(unsigned int vcpu, uint32_t access, uint64_t address, void *function)
{
	(void)vcpu;
	if (window.open)
		touch_access(function, context, qemu_plugin_mem_is_store(access), address,
			     1 << qemu_plugin_mem_size_shift(access));
}

static enum mark find_marker(uint64_t address)
{
	if (address == arguments.arm)
		return MARK_ARM;
	if (address == arguments.open)
		return MARK_OPEN;
	if (address == arguments.close)
		return MARK_CLOSE;
	return address == arguments.app ? MARK_APP : MARK_NONE;
}

static bool is_iret(const struct qemu_plugin_insn *insn)
{
	static const uint8_t iretq[] = {0x48, 0xcf};
	uint8_t code[sizeof(iretq)];

	return qemu_plugin_insn_data(insn, code, sizeof(code)) == sizeof(code) &&
	       !memcmp(code, iretq, sizeof(code));
}

static int find_mark(const struct qemu_plugin_insn *insn, uint64_t address)
{
	int mark = table_mark(address);

	if (!mark)
		mark = find_marker(address);
	if (!mark && arguments.memory && address == table_program())
		mark = MARK_PROGRAM;
	if (!mark && is_iret(insn))
		mark = MARK_IRET;
	return mark;
}

static void instrument_insn(struct qemu_plugin_insn *insn, uint64_t address, size_t ran)
{
	const struct qemu_plugin_u64 ran_entry = {score, offsetof(struct progress, ran)};
	const struct qemu_plugin_u64 total_entry = {score, offsetof(struct progress, total)};

	qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_STORE, ran_entry, ran);
	qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_ADD, total_entry, 1);
	if (arguments.memory)
		qemu_plugin_register_vcpu_mem_cb(insn, access_memory, QEMU_NO_REGISTERS,
						 QEMU_LOADS_AND_STORES,
						 touch_find(table_function(address)));
}

static void instrument_block(const struct qemu_plugin_tb *tb, size_t first,
			     const uint64_t *addresses, size_t len, int mark)
{
	struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, first);
	struct block *block = block_find(addresses, len, mark);

	qemu_plugin_register_vcpu_insn_exec_cb(insn, mark ? enter_marked : enter,
					       mark ? QEMU_READS_REGISTERS : QEMU_NO_REGISTERS,
					       block);
	for (size_t i = 0; i < len; i++)
		instrument_insn(qemu_plugin_tb_get_insn(tb, first + i), addresses[i], i + 1);
}

/* A block of QEMU is cut where a mark stands, so that a mark is only at the start of ours. */
static void instrument(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	uint64_t addresses[BLOCK_MAX];
	size_t len = qemu_plugin_tb_n_insns(tb), first = 0;
	int mark = MARK_NONE;

	(void)id;
	for (size_t i = 0; i < len; i++) {
		const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		int next;

		addresses[i] = qemu_plugin_insn_vaddr(insn);
		next = find_mark(insn, addresses[i]);
		if (next && i > first) {
			instrument_block(tb, first, &addresses[first], i - first, mark);
			first = i;
		}
		if (next)
			mark = next;
		else if (i == first)
			mark = MARK_NONE;
	}
	instrument_block(tb, first, &addresses[first], len - first, mark);
}

static void start_counting(qemu_plugin_id_t id)
{
	current = NULL;
	qemu_plugin_register_vcpu_tb_trans_cb(id, instrument);
}

static void see_arm(void)
{
	const char *reason = guest_find_registers() ? table_read(arguments.table)
						    : "this guest has other registers";

	if (reason) {
		window_complain(&window, "arm", reason);
		return;
	}
	progress = qemu_plugin_scoreboard_find(score, 0);
	/* Which function code belongs to is found out when it is translated. */
	if (!armed || arguments.memory)
		qemu_plugin_reset(plugin, start_counting);
	armed = true;
}

static void arm(unsigned int vcpu, void *nothing)
{
	(void)vcpu;
	(void)nothing;
	see_arm();
}

static void warn_unarmed(unsigned int vcpu, void *nothing)
{
	(void)vcpu;
	(void)nothing;
	window_complain(&window, "open", "counting was not armed");
}

/* Before it is armed. */
static void watch(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		enum mark mark = find_marker(qemu_plugin_insn_vaddr(insn));

		if (mark == MARK_ARM)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, arm, QEMU_READS_REGISTERS,
							       NULL);
		if (mark == MARK_OPEN)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, warn_unarmed,
							       QEMU_NO_REGISTERS, NULL);
	}
}

static const char *check_qemu(const struct qemu_info *info)
{
	if (info->version.cur != QEMU_INTERFACE)
		return "its plugin interface is not the known one, version 4 (QEMU 9.2 to 10.0)";
	if (!info->system_emulation || strcmp(info->target_name, "x86_64"))
		return "it is not qemu-system-x86_64";
	return info->system.smp_vcpus == 1 ? NULL : "the guest has more than one CPU";
}

QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
				    char **argv)
{
	const char *reason = check_qemu(info);

	if (reason) {
		fprintf(stderr, "xdprepro-count: QEMU: check: %s\n", reason);
		return -1;
	}
	if (!arguments_read(&arguments, argc, argv) || !window_start(&window, arguments.out))
		return -1;
	plugin = id;
	score = qemu_plugin_scoreboard_new(sizeof(struct progress));
	qemu_plugin_register_vcpu_tb_trans_cb(id, watch);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Count each instruction that a guest executes in a window, by its address and by who ran it. While
 * the guest boots, only the markers of the agent are watched.
 */
#include <stdio.h>
#include <string.h>

#include "arguments.h"
#include "block.h"
#include "guest.h"
#include "qemu.h"
#include "result.h"
#include "run.h"
#include "table.h"
#include "touch.h"

QEMU_EXPORT int qemu_plugin_version = QEMU_INTERFACE;

static qemu_plugin_id_t plugin;
static struct arguments arguments;
static struct qemu_plugin_scoreboard *score;

/* Part of a block of QEMU: it is cut where a mark stands, so that marks only stand at the start. */
struct piece {
	const struct qemu_plugin_tb *tb;
	size_t first;
	size_t len;
	int mark;
	uint64_t addresses[BLOCK_MAX];
};

static enum run_mark find_marker(uint64_t address)
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
		qemu_plugin_register_vcpu_mem_cb(insn, run_access, QEMU_NO_REGISTERS,
						 QEMU_LOADS_AND_STORES,
						 touch_find(table_function(address)));
}

static void instrument_piece(const struct piece *piece)
{
	struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(piece->tb, piece->first);
	struct block *block = block_find(piece->addresses, piece->len, piece->mark);

	qemu_plugin_register_vcpu_insn_exec_cb(
		first, piece->mark ? run_marked_block : run_block,
		piece->mark ? QEMU_READS_REGISTERS : QEMU_NO_REGISTERS, block);
	for (size_t i = 0; i < piece->len; i++)
		instrument_insn(qemu_plugin_tb_get_insn(piece->tb, piece->first + i),
				piece->addresses[i], i + 1);
}

static void instrument(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	struct piece piece = {.tb = tb};

	(void)id;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t address = qemu_plugin_insn_vaddr(insn);
		int mark = find_mark(insn, address);

		if (piece.len && (mark || piece.len == BLOCK_MAX)) {
			instrument_piece(&piece);
			piece.first = i;
			piece.len = 0;
		}
		if (!piece.len)
			piece.mark = mark;
		piece.addresses[piece.len++] = address;
	}
	if (piece.len)
		instrument_piece(&piece);
}

static void start_counting(qemu_plugin_id_t id)
{
	run_start(qemu_plugin_scoreboard_find(score, 0), arguments.memory);
	qemu_plugin_register_vcpu_tb_trans_cb(id, instrument);
}

void see_arm(void)
{
	static bool armed;
	const char *reason = guest_find_registers() ? table_read(arguments.table)
						    : "this guest has other registers";

	if (reason) {
		window_complain(&window, "arm", reason);
		return;
	}
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
		enum run_mark mark = find_marker(qemu_plugin_insn_vaddr(insn));

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

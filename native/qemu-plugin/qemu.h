/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_QEMU_H
#define XDPREPRO_QEMU_H

/*
 * The part of QEMU's plugin interface that is used here, and of GLib, on which it stands. Both live
 * in the QEMU process, so neither their headers nor their libraries are needed to build.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Version 4 came with QEMU 9.2; reading the guest's memory is new in it. */
#define QEMU_INTERFACE 4

#define QEMU_EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;

struct qemu_info {
	const char *target_name;
	struct {
		int min;
		int cur;
	} version;
	bool system_emulation;
	struct {
		int smp_vcpus;
		int max_vcpus;
	} system;
};

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_register;
struct qemu_plugin_scoreboard;

enum qemu_callback_flags { QEMU_NO_REGISTERS, QEMU_READS_REGISTERS };
enum qemu_memory_access { QEMU_LOADS = 1, QEMU_STORES = 2, QEMU_LOADS_AND_STORES = 3 };
enum qemu_inline_operation { QEMU_ADD, QEMU_STORE };

struct qemu_plugin_u64 {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
};

struct qemu_register_description {
	struct qemu_plugin_register *handle;
	const char *name;
	const char *feature;
};

struct glib_array {
	void *data;
	unsigned int len;
};

struct glib_array *g_byte_array_new(void);
struct glib_array *g_byte_array_set_size(struct glib_array *array, unsigned int len);
char *g_array_free(struct glib_array *array, int free_segment);

typedef void (*qemu_simple_callback)(qemu_plugin_id_t id);
typedef void (*qemu_translate_callback)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*qemu_execute_callback)(unsigned int vcpu, void *context);
typedef void (*qemu_memory_callback)(unsigned int vcpu, uint32_t access, uint64_t address,
				     void *context);

void qemu_plugin_reset(qemu_plugin_id_t id, qemu_simple_callback done);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_translate_callback callback);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);

uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *data, size_t size);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    qemu_execute_callback callback,
					    enum qemu_callback_flags flags, void *context);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *insn,
							 enum qemu_inline_operation operation,
							 struct qemu_plugin_u64 entry,
							 uint64_t operand);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, qemu_memory_callback callback,
				      enum qemu_callback_flags flags, enum qemu_memory_access which,
				      void *context);
unsigned int qemu_plugin_mem_size_shift(uint32_t access);
bool qemu_plugin_mem_is_store(uint32_t access);

struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t element_size);
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *score, unsigned int vcpu);

struct glib_array *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(struct qemu_plugin_register *handle, struct glib_array *bytes);
bool qemu_plugin_read_memory_vaddr(uint64_t address, struct glib_array *bytes, size_t len);

#endif

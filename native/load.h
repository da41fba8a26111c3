/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_LOAD_H
#define XDPREPRO_LOAD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "../bpf/record.h"
#include "programs.h"

#define TAG_TEXT_SIZE (2 * BPF_TAG_SIZE + 1)

/* A program in the kernel. */
struct loaded {
	struct bpf_object *object;
	int fd;
	const struct record *records; /* mapped .bss; NULL for a bare program */
	size_t records_size;
	unsigned int records_per_cpu;
	const struct record *remote; /* of programs on other CPUs; NULL: there are none */
	size_t remote_size;
};

/* What a program is loaded with; all zero is fine for one without knobs. */
struct load_options {
	const void *knobs; /* the whole .rodata of its object */
	size_t knobs_size;
	unsigned int flags; /* for the kernel, such as BPF_F_XDP_HAS_FRAGS */
	const char *also;   /* a second program of the same object; NULL: none */
	/* Called with the context before the load, to set the sizes of maps; NULL: none. */
	int (*prepare)(const void *context, struct bpf_object *object);
	const void *context;
	bool one_queue;    /* the port has one receive queue */
	const char *needs; /* said where the kernel refuses it as invalid; NULL: nothing */
};

int loaded_create(struct loaded *loaded, const struct program *program,
		  const struct load_options *options);
void loaded_destroy(struct loaded *loaded);

bool loaded_has_map(const struct loaded *loaded, const char *map);

/* The descriptor of the second program that was loaded; a failure where there is none. */
int loaded_also_fd(const struct loaded *loaded, const char *name);

/* Set one element of a map with 32-bit keys. */
int loaded_set_element(const struct loaded *loaded, const char *map, unsigned int key,
		       const void *value);

/* The same with a 32-bit value. */
int loaded_set_map(const struct loaded *loaded, const char *map, unsigned int key,
		   unsigned int value);

/* What the kernel tells of the program: `tag`, `jited_addr` and `jited_len`, all null of none. */
json_t *loaded_describe(const struct loaded *loaded);

/* Read a program's info, and the address of its machine code as the kernel tells it: 0 without a
 * JIT, or where kernel.kptr_restrict hides it. 0 or -errno. */
int read_program_info(int fd, struct bpf_prog_info *info, __u64 *jited_addr);

/* Of the info: the kernel's hash of a program. */
void format_tag(const struct bpf_prog_info *info, char *text, size_t size);

/* An address as a JSON string, null for 0. */
json_t *describe_address(__u64 address);

/* Lift RLIMIT_MEMLOCK as far as it goes: before 5.11 the kernel charged BPF maps to it. */
void load_raise_memlock(void);
unsigned long long load_memlock_kib(void);

#endif

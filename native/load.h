/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_LOAD_H
#define XDPREPRO_LOAD_H

#include <jansson.h>
#include <stddef.h>

#include <bpf/libbpf.h>

#include "../bpf/record.h"
#include "programs.h"

#define TAG_TEXT_SIZE (2 * BPF_TAG_SIZE + 1)

/* A program in the kernel. */
struct loaded {
	struct bpf_object *object;
	int fd;
	const struct record *records; /* mapped .bss; NULL for a bare program */
	size_t records_size;
};

/*
 * Load a program with its knobs (NULL: it has none) and with flags for the kernel, such as
 * BPF_F_XDP_HAS_FRAGS.
 */
int loaded_create(struct loaded *loaded, const struct program *program, const void *knobs,
		  size_t knobs_size, unsigned int flags);
void loaded_destroy(struct loaded *loaded);

/* Set one element of a map of 32-bit keys and values. */
int loaded_set_map(const struct loaded *loaded, const char *map, unsigned int key,
		   unsigned int value);

/* The kernel's hash of the program, as a JSON string. */
json_t *loaded_tag(const struct loaded *loaded);

/* The same of a program's info. */
struct bpf_prog_info;
void format_tag(const struct bpf_prog_info *info, char *text, size_t size);

/* Lift RLIMIT_MEMLOCK as far as it goes: before 5.11 the kernel charged BPF maps to it. */
void load_raise_memlock(void);
unsigned long long load_memlock_kib(void);

#endif

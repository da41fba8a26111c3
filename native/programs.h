/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_PROGRAMS_H
#define XDPREPRO_PROGRAMS_H

#include <stddef.h>

/* A BPF object file, which is part of this binary. */
struct image {
	const char *elf;
	const char *end;
	const char *sha256; /* taken when the agent was built */
};

/* A source of bpf/, built for ports with one receive queue and for others. */
struct object {
	const char *name;
	struct image queues;
	struct image one_queue;
};

/* One program of an object; the others of the same object are not loaded. */
struct program {
	const struct object *object;
	const char *name;
};

/* The list is made from the sources in bpf/: object_NAME is that of bpf/NAME.bpf.c. */
#define OBJECT(NAME) extern const struct object object_##NAME;
#include "objects.inc"
#undef OBJECT

extern const struct object *const objects[];
extern const size_t objects_len;

#define PROGRAM(OBJECT, NAME) (&(const struct program){&object_##OBJECT, #NAME})

/* Programs that are no case. */
extern const struct program *const program_generate_live;
extern const struct program *const program_generate_live_restored;
extern const struct program *const program_generate_paced;
extern const struct program *const program_generate_paced_restored;
extern const struct program *const program_count_return;
extern const struct program *const program_pass;
extern const struct program *const program_drop; /* without records */

#endif

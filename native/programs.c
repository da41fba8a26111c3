// SPDX-License-Identifier: GPL-2.0-or-later
#include "programs.h"

#include "build_info.h"

/* libelf wants the file as aligned as its largest field. */
#define IMAGE(NAME)                                                                          \
	__asm__(".section .rodata\n.balign 8\n" #NAME "_elf:\n.incbin \"../bpf/build/" #NAME \
		".bpf.o\"\n" #NAME "_end:\n.previous\n");                                    \
	extern const char NAME##_elf[], NAME##_end[];
#define OBJECT(NAME)                                                                     \
	IMAGE(NAME)                                                                      \
	IMAGE(NAME##_one_queue)                                                          \
	const struct object object_##NAME = {                                            \
		#NAME,                                                                   \
		{NAME##_elf, NAME##_end, SHA256_##NAME},                                 \
		{NAME##_one_queue_elf, NAME##_one_queue_end, SHA256_##NAME##_one_queue}, \
	};
#include "objects.inc"
#undef OBJECT

const struct object *const objects[] = {
#define OBJECT(NAME) &object_##NAME,
#include "objects.inc"
#undef OBJECT
};
const size_t objects_len = sizeof(objects) / sizeof(objects[0]);

const struct program *const program_generate_live = PROGRAM(generate_live, generate_live);
const struct program *const program_generate_live_restored =
	PROGRAM(generate_live, generate_live_restored);
const struct program *const program_generate_paced = PROGRAM(generate_paced, generate_paced);
const struct program *const program_generate_paced_restored =
	PROGRAM(generate_paced, generate_paced_restored);
const struct program *const program_count_return = PROGRAM(count_return, count_return);
const struct program *const program_pass = PROGRAM(bare_pass, bare_pass);
const struct program *const program_drop = PROGRAM(bare_drop, bare_drop);

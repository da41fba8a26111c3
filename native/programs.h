/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_PROGRAMS_H
#define XDPREPRO_PROGRAMS_H

#include <stdbool.h>
#include <stddef.h>

/* A BPF object that is part of this binary; the program in it has the same name. */
struct program {
	const char *name;
	const void *(*elf)(size_t *size);
	const char *sha256; /* of the object file, taken when the agent was built */
};

enum role { ROLE_SINK, ROLE_FORWARD, ROLE_GENERATE };

/* How a program learns the port to send to. */
enum egress { EGRESS_NONE, EGRESS_KNOB, EGRESS_MAP };

struct test_case {
	const char *name;
	enum role role;
	const struct program *program;
	enum egress egress;
	bool sockets; /* packets go to AF_XDP sockets */
	bool bare;    /* a limit to compare with, without counters; not for suites */
};

extern const struct program programs[];
extern const size_t programs_len;
extern const struct test_case test_cases[];
extern const size_t test_cases_len;

const struct test_case *find_case(const char *name);

/* Programs that are no case. */
extern const struct program *const program_generate_live;
extern const struct program *const program_count_return;
extern const struct program *const program_pass;
extern const struct program *const program_drop; /* without records */

#endif

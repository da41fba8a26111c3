/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_CASES_H
#define XDPREPRO_CASES_H

#include <stdbool.h>
#include <stddef.h>

#include "programs.h"

struct app_ops;
struct work;

enum role { ROLE_SINK, ROLE_FORWARD, ROLE_TRANSMIT, ROLE_GENERATE, ROLE_RING };

#define ROLE_BIT(role) (1u << (role))

/* How a program learns the port to send to. */
enum egress {
	EGRESS_NONE,
	EGRESS_KNOB,
	EGRESS_MAP,
	EGRESS_SLOTS, /* of the map, as many as the spec's `fanout` */
	EGRESS_CPUS,  /* CPUs of a second map; the port of their program, if any, is in the first */
};

/* The sections that a spec has, one bit each; spec.c has the key and the parser of each. */
enum {
	SECTION_XDP = 1 << 0,
	SECTION_XSK = 1 << 1,
	SECTION_WORK = 1 << 2,
	SECTION_PACKET = 1 << 3,
	SECTION_UDP = 1 << 4,
	SECTION_RING = 1 << 5,
};

struct test_case {
	const char *name;
	unsigned int roles; /* those it may have */
	unsigned int sections;
	const struct program *program; /* NULL: none is attached */
	enum egress egress;
	const struct app_ops *app; /* NULL: packets end in the kernel */
	const struct work *work;   /* NULL: none */
	bool load_bytes;           /* its object has the program NAME_load_bytes too */
	bool bare;                 /* a limit to compare with, without counters; not for suites */
};

extern const struct test_case cases_xdp[];
extern const size_t cases_xdp_len;
extern const struct test_case cases_xsk[];
extern const size_t cases_xsk_len;
extern const struct test_case cases_work[];
extern const size_t cases_work_len;
extern const struct test_case cases_local[];
extern const size_t cases_local_len;
extern const struct test_case cases_packet[];
extern const size_t cases_packet_len;
extern const struct test_case cases_ring[]; /* in the order of enum ring_kind */
extern const size_t cases_ring_len;

const struct test_case *find_case(const char *name);

/* All of them, in the order of the tables; NULL after the last. */
const struct test_case *case_at(size_t index);

extern const char *const role_names[];

#endif

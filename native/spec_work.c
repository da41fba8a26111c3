// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>

#include "../bpf/work_csum.h"
#include "frame.h"
#include "spec_section.h"
#include "work.h"
#include "work_share.h"

#define LINES_MAX 10000000
#define ACL_MAX 1000000
#define SESSIONS_MAX 2000000

static const struct key {
	const char *name;
	unsigned int parts; /* a work that has one of these has the key */
	int min;
	int max;
	size_t offset;
} keys[] = {
	{"lines", WORK_LINES, 1, LINES_MAX, offsetof(struct work_spec, lines)},
	{"iterations", WORK_ITERATIONS, 1, WORK_ITERATIONS_MAX,
	 offsetof(struct work_spec, iterations)},
	{"acl", WORK_ACL, 1, ACL_MAX, offsetof(struct work_spec, acl)},
	{"sessions", WORK_SESSIONS, 1, SESSIONS_MAX, offsetof(struct work_spec, sessions)},
	{"backends", WORK_SESSIONS, 1, WORK_BACKENDS_MAX, offsetof(struct work_spec, backends)},
	{"drop_share", WORK_SHARE, 0, 100, offsetof(struct work_spec, drop_share)},
	{"flows", WORK_ACL | WORK_SESSIONS, 1, FRAME_FLOWS_MAX, offsetof(struct work_spec, flows)},
	{"seed", WORK_LINES | WORK_ACL | WORK_SESSIONS, 0, INT32_MAX,
	 offsetof(struct work_spec, seed)},
};

#define KEYS_LEN (sizeof(keys) / sizeof(keys[0]))

static int check_keys(const struct section *section, unsigned int parts)
{
	const char *allowed[KEYS_LEN + 1] = {NULL};
	size_t len = 0;

	for (size_t i = 0; i < KEYS_LEN; i++)
		if (keys[i].parts & parts)
			allowed[len++] = keys[i].name;
	return section_check_keys(section, allowed);
}

/* The tables must have room for the generator's flows. */
static int check_room(const struct section *section, const struct work_spec *work,
		      unsigned int parts)
{
	int dropped = work_dropped(work->flows, work->drop_share);
	int forwarded = work->flows - dropped;
	char allowed[64];

	if (parts & WORK_SHARE && work->acl < dropped) {
		snprintf(allowed, sizeof(allowed), "%d or more, for the flows to be dropped",
			 dropped);
		return bad_value(section, "acl", allowed);
	}
	if (parts & WORK_SESSIONS && work->sessions < forwarded) {
		snprintf(allowed, sizeof(allowed), "%d or more, one for each flow", forwarded);
		return bad_value(section, "sessions", allowed);
	}
	return 0;
}

int parse_work(const struct section *top, struct spec *spec)
{
	unsigned int parts = spec->test_case->work->parts;
	struct section section;
	int result = read_section(top, "work", "work.", &section);

	if (!result)
		result = check_keys(&section, parts);
	for (size_t i = 0; !result && i < KEYS_LEN; i++)
		if (keys[i].parts & parts)
			result = read_small(&section, keys[i].name, keys[i].min, keys[i].max,
					    (int *)((char *)&spec->work + keys[i].offset));
	return result ? result : check_room(&section, &spec->work, parts);
}

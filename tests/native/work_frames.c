// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A work as an application does it, for one frame after the other: the first argument is the spec
 * of a trial, standard input is one frame a line in hex. For each comes a line: 1 or 0, kept or
 * not, and the frame after it. The last line is the working set's packets by line.
 */
#include <stdio.h>
#include <string.h>

#include "../../native/error.h"
#include "../../native/spec.h"
#include "../../native/work_touch.h"

#define FRAME_MAX 2048

static bool touch(struct work_thread *thread, uint8_t *frame, uint32_t len)
{
	const struct work *work = thread->state->work;

	if (work == &work_mem)
		return touch_mem(thread, frame, len);
	if (work == &work_csum)
		return touch_csum(thread, frame, len);
	if (work == &work_fw)
		return touch_fw(thread, frame, len);
	return work == &work_lb ? touch_lb(thread, frame, len) : touch_lbfw(thread, frame, len);
}

static uint32_t read_frame(const char *line, uint8_t *frame)
{
	uint32_t len = 0;

	while (len < FRAME_MAX && sscanf(line + 2 * len, "%2hhx", &frame[len]) == 1)
		len++;
	return len;
}

static void print_lines(const struct work_state *state)
{
	for (int i = 0; state->lines && i < state->spec->lines; i++)
		printf("%llu ", (unsigned long long)state->lines[i].packets);
	printf("\n");
}

int main(int argc, char **argv)
{
	static char line[2 * FRAME_MAX + 2];
	static uint8_t frame[FRAME_MAX];
	struct work_state *state;
	struct work_thread *thread;
	struct spec spec;

	if (argc != 2 || spec_parse(argv[1], &spec) ||
	    work_create(&state, spec.test_case->work, &spec.work) ||
	    !(thread = work_add_thread(state))) {
		fprintf(stderr, "%s: %s\n", failure.step, failure.reason);
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		uint32_t len = read_frame(line, frame);

		printf("%d ", touch(thread, frame, len));
		for (uint32_t i = 0; i < len; i++)
			printf("%02x", frame[i]);
		printf("\n");
	}
	print_lines(state);
	work_destroy(state);
	return 0;
}

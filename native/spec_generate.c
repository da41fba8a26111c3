// SPDX-License-Identifier: GPL-2.0-or-later
#include "spec_section.h"

#include "error.h"
#include "frame.h"

#define RATE_PPS_MAX 1000000000LL
#define OUTSTANDING_MAX (1 << 16)

const char *const generator_names[] = {"live-frames", "af-packet", NULL};

static const char *const frame_keys[] = {"dst_mac", "src_mac", "frame_len",
					 "flows",   "restore", NULL};

static int parse_frame(const struct section *top, struct frame_spec *frame)
{
	struct section section;
	int result = read_section(top, "frame", "frame.", &section);

	if (!result)
		result = section_check_keys(&section, frame_keys);
	if (!result)
		result = read_mac(&section, "dst_mac", frame->dst_mac);
	if (!result)
		result = read_mac(&section, "src_mac", frame->src_mac);
	if (!result)
		result = read_small(&section, "frame_len", FRAME_LEN_MIN, FRAME_LEN_MAX,
				    &frame->frame_len);
	if (!result)
		result = read_small(&section, "flows", 1, FRAME_FLOWS_MAX, &frame->flows);
	if (!result && json_object_get(section.object, "restore"))
		result = read_bool(&section, "restore", &frame->restore);
	return result;
}

/* Without a count its end would depend on a clock. */
static int parse_window(const struct section *top, struct generator_spec *generator)
{
	generator->window = NO_WINDOW;
	if (!json_object_get(top->object, "window"))
		return 0;
	if (!generator->count)
		return bad_value(top, "window", "allowed without a count");
	return read_int(top, "window", 0, INT32_MAX, &generator->window);
}

int parse_sending(const struct section *top, struct generator_spec *generator)
{
	int result = read_int(top, "count", 0, 1000000000000LL, &generator->count);

	if (!result)
		result = parse_window(top, generator);
	if (!result)
		result = parse_frame(top, &generator->frame);
	return result;
}

static int parse_load(const struct section *top, struct generator_spec *generator)
{
	int result = 0;

	if (json_object_get(top->object, "rate_pps"))
		result = read_int(top, "rate_pps", 0, RATE_PPS_MAX, &generator->rate_pps);
	if (!result && json_object_get(top->object, "closed_loop"))
		result =
			read_small(top, "closed_loop", 0, OUTSTANDING_MAX, &generator->closed_loop);
	return result;
}

/*
 * Only a thread of our own can wait for what returns, and two could not share that. A program that
 * keeps time cannot end its call.
 */
static int check_load(const struct section *top, const struct generator_spec *generator)
{
	bool live = generator->kind == GENERATOR_LIVE_FRAMES;

	if (generator->closed_loop && live)
		return bad_value(top, "closed_loop", "allowed with live-frames: use af-packet");
	if (generator->closed_loop && generator->cpus_len != 1)
		return bad_value(top, "closed_loop", "allowed with more than one of cpus");
	if (generator->closed_loop && generator->rate_pps)
		return bad_value(top, "closed_loop", "allowed with a rate_pps");
	if (generator->rate_pps && generator->count && live)
		return bad_value(top, "rate_pps", "allowed with live-frames and a count");
	return 0;
}

/* With two threads a window had two generators. */
static int check_generator(const struct section *top, const struct generator_spec *generator)
{
	int frame_len = generator->frame.frame_len;

	if (generator->window != NO_WINDOW && generator->cpus_len != 1)
		return bad_value(top, "window", "allowed with more than one of cpus");
	if (generator->kind == GENERATOR_LIVE_FRAMES && frame_len > LIVE_FRAME_LEN_MAX)
		return fail_usage("spec", "frame.frame_len",
				  "%d is not at most %d, what a live frame can be: use af-packet",
				  frame_len, LIVE_FRAME_LEN_MAX);
	return 0;
}

int parse_generator(const struct section *top, struct generator_spec *generator)
{
	int result = read_choice(top, "generator", generator_names, &generator->kind);

	if (!result)
		result = read_int_list(top, "cpus", MAX_CPUS - 1, generator->cpus,
				       &generator->cpus_len);
	if (!result)
		result = read_small(top, "batch", 1, 256, &generator->batch);
	if (!result && json_object_get(top->object, "promiscuous"))
		result = read_bool(top, "promiscuous", &generator->promiscuous);
	if (!result)
		result = parse_sending(top, generator);
	if (!result)
		result = parse_load(top, generator);
	if (!result)
		result = check_load(top, generator);
	return result ? result : check_generator(top, generator);
}

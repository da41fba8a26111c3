// SPDX-License-Identifier: GPL-2.0-or-later
#include "spec_section.h"

#include "frame.h"

const char *const generator_names[] = {"live-frames", "af-packet", NULL};

static const char *const frame_keys[] = {"dst_mac", "src_mac", "frame_len", "flows", NULL};

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

int parse_generator(const struct section *top, struct generator_spec *generator)
{
	int result = read_choice(top, "generator", generator_names, &generator->kind);

	if (!result)
		result = read_int_list(top, "cpus", MAX_CPUS - 1, generator->cpus,
				       &generator->cpus_len);
	if (!result)
		result = read_small(top, "batch", 1, 256, &generator->batch);
	if (!result)
		result = parse_sending(top, generator);
	/* With two threads a window had two generators. */
	if (!result && generator->window != NO_WINDOW && generator->cpus_len != 1)
		result = bad_value(top, "window", "allowed with more than one of cpus");
	return result;
}

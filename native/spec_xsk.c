// SPDX-License-Identifier: GPL-2.0-or-later
#include "spec_section.h"

static const char *const wakeup_names[] = {"busy", "poll", NULL};
const char *const bind_mode_names[] = {"copy", "zero-copy", NULL};

static const char *const xsk_keys[] = {"bind_mode", "queues",    "app_cpu", "wakeup",     "batch",
				       "ring_rx",   "ring_fill", "frames",  "frame_size", NULL};
int parse_xsk(const struct section *top, struct spec *spec)
{
	struct xsk_spec *xsk = &spec->xsk;
	struct section section;
	int result = read_section(top, "xsk", "xsk.", &section);

	if (!result)
		result = section_check_keys(&section, xsk_keys);
	if (!result)
		result = read_choice(&section, "bind_mode", bind_mode_names, &xsk->bind_mode);
	if (!result)
		result = read_int_list(&section, "queues", MAX_QUEUES - 1, xsk->queues,
				       &xsk->queues_len);
	if (!result)
		result = read_small(&section, "app_cpu", 0, MAX_CPUS - 1, &xsk->app_cpu);
	if (!result)
		result = read_choice(&section, "wakeup", wakeup_names, &xsk->wakeup);
	if (!result)
		result = read_small(&section, "batch", 1, 4096, &xsk->batch);
	if (!result)
		result = read_power_of_two(&section, "ring_rx", 64, 1 << 16, &xsk->ring_rx);
	if (!result)
		result = read_power_of_two(&section, "ring_fill", 64, 1 << 16, &xsk->ring_fill);
	if (!result)
		result = read_small(&section, "frames", 64, 1 << 20, &xsk->frames);
	if (!result)
		result = read_power_of_two(&section, "frame_size", 2048, 4096, &xsk->frame_size);
	return result;
}

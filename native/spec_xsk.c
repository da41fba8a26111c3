// SPDX-License-Identifier: GPL-2.0-or-later
#include "spec_section.h"

static const char *const wakeup_names[] = {"irq", "need-wakeup", "poll", "busy-poll", NULL};
const char *const bind_mode_names[] = {"copy", "zero-copy", NULL};

static const char *const xsk_keys[] = {
	"bind_mode",       "queues",           "app_cpus",   "wakeup",
	"batch",           "ring_rx",          "ring_tx",    "ring_fill",
	"ring_completion", "frames",           "frame_size", "unaligned",
	"huge_pages",      "shared_umem",      "sockets",    "frags",
	"busy_poll_us",    "busy_poll_budget", NULL};

static bool has(const struct section *section, const char *key)
{
	return json_object_get(section->object, key);
}

static int parse_rings(const struct section *section, struct xsk_spec *xsk)
{
	int result = read_power_of_two(section, "ring_rx", 64, 1 << 16, &xsk->ring_rx);

	if (!result)
		result = read_power_of_two(section, "ring_fill", 64, 1 << 16, &xsk->ring_fill);
	xsk->ring_tx = xsk->ring_rx;
	if (!result && has(section, "ring_tx"))
		result = read_power_of_two(section, "ring_tx", 64, 1 << 16, &xsk->ring_tx);
	xsk->ring_completion = xsk->ring_fill;
	if (!result && has(section, "ring_completion"))
		result = read_power_of_two(section, "ring_completion", 64, 1 << 16,
					   &xsk->ring_completion);
	return result;
}

static int read_flag(const struct section *section, const char *key, bool *value)
{
	return has(section, key) ? read_bool(section, key, value) : 0;
}

/* Aligned frames begin at multiples of their size, which the kernel takes by a mask. */
static int parse_frames(const struct section *section, struct xsk_spec *xsk)
{
	int result = read_flag(section, "unaligned", &xsk->unaligned);

	if (!result)
		result = read_flag(section, "huge_pages", &xsk->huge_pages);
	if (!result)
		result = read_flag(section, "frags", &xsk->frags);
	if (!result)
		result = read_small(section, "frames", 64, 1 << 20, &xsk->frames);
	if (!result)
		result = xsk->unaligned
				 ? read_small(section, "frame_size", 2048, 4096, &xsk->frame_size)
				 : read_power_of_two(section, "frame_size", 2048, 4096,
						     &xsk->frame_size);
	return result;
}

/* A power of two, so that the program takes sockets in turn by a mask. */
static int parse_sockets(const struct section *section, struct xsk_spec *xsk)
{
	int result = read_flag(section, "shared_umem", &xsk->shared_umem);

	xsk->sockets = 1;
	if (!result && has(section, "sockets"))
		result = read_power_of_two(section, "sockets", 1, 16, &xsk->sockets);
	if (result)
		return result;
	if (xsk->sockets > 1 && !xsk->shared_umem)
		return bad_value(section, "sockets", "1 without shared_umem");
	if (xsk->sockets * xsk->queues_len > MAX_QUEUES)
		return bad_value(section, "sockets", "at most 64 together with the queues");
	return 0;
}

static int parse_busy_poll(const struct section *section, struct xsk_spec *xsk)
{
	int result = 0;

	xsk->busy_poll_us = 20;
	xsk->busy_poll_budget = 64;
	if (has(section, "busy_poll_us"))
		result = read_small(section, "busy_poll_us", 1, 1000000, &xsk->busy_poll_us);
	if (!result && has(section, "busy_poll_budget"))
		result = read_small(section, "busy_poll_budget", 1, 65535, &xsk->busy_poll_budget);
	return result;
}

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
		result = read_int_list(&section, "app_cpus", MAX_CPUS - 1, xsk->app_cpus,
				       &xsk->app_cpus_len);
	if (!result && xsk->app_cpus_len > xsk->queues_len)
		result = bad_value(&section, "app_cpus", "at most one for each of the queues");
	if (!result)
		result = read_choice(&section, "wakeup", wakeup_names, &xsk->wakeup);
	if (!result)
		result = read_small(&section, "batch", 1, 4096, &xsk->batch);
	if (!result)
		result = parse_rings(&section, xsk);
	if (!result)
		result = parse_frames(&section, xsk);
	if (!result)
		result = parse_sockets(&section, xsk);
	return result ? result : parse_busy_poll(&section, xsk);
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "spec_section.h"

#include <unistd.h>

#include "frame.h"

static const char *const wakeup_names[] = {"busy", "poll", NULL};

static const char *const packet_keys[] = {"block_size", "blocks",  "frame_size",
					  "batch",      "app_cpu", "wakeup",
					  "timeout_ms", "bypass",  NULL};
static const char *const udp_keys[] = {"app_cpu", "batch", "port", NULL};

/* The kernel maps whole pages, and slots of frames may not reach across a block. */
static int parse_sizes(const struct section *section, struct packet_spec *packet)
{
	int result = read_power_of_two(section, "block_size", getpagesize(), 1 << 22,
				       &packet->block_size);

	if (!result)
		result = read_small(section, "blocks", 1, 1024, &packet->blocks);
	if (!result)
		result =
			read_power_of_two(section, "frame_size", 256, 1 << 14, &packet->frame_size);
	if (!result && packet->frame_size > packet->block_size)
		result = bad_value(section, "frame_size", "at most packet.block_size");
	return result;
}

/* For TPACKET_V3: how long a block may stay open that is not full. Less than a drain takes. */
static int parse_timeout(const struct section *section, struct packet_spec *packet)
{
	packet->timeout_ms = 1;
	if (!json_object_get(section->object, "timeout_ms"))
		return 0;
	return read_small(section, "timeout_ms", 1, 20, &packet->timeout_ms);
}

static int parse_bypass(const struct section *section, struct packet_spec *packet)
{
	packet->bypass = true;
	if (!json_object_get(section->object, "bypass"))
		return 0;
	return read_bool(section, "bypass", &packet->bypass);
}

int parse_packet(const struct section *top, struct spec *spec)
{
	struct packet_spec *packet = &spec->packet;
	struct section section;
	int wakeup, result = read_section(top, "packet", "packet.", &section);

	if (!result)
		result = section_check_keys(&section, packet_keys);
	if (!result)
		result = parse_sizes(&section, packet);
	if (!result)
		result = read_small(&section, "batch", 1, 256, &packet->batch);
	if (!result)
		result = read_small(&section, "app_cpu", 0, MAX_CPUS - 1, &packet->app_cpu);
	if (!result)
		result = read_choice(&section, "wakeup", wakeup_names, &wakeup);
	if (!result)
		packet->poll = wakeup;
	if (!result)
		result = parse_timeout(&section, packet);
	return result ? result : parse_bypass(&section, packet);
}

int parse_udp(const struct section *top, struct spec *spec)
{
	struct udp_spec *udp = &spec->udp;
	struct section section;
	int result = read_section(top, "udp", "udp.", &section);

	if (!result)
		result = section_check_keys(&section, udp_keys);
	if (!result)
		result = read_small(&section, "app_cpu", 0, MAX_CPUS - 1, &udp->app_cpu);
	if (!result)
		result = read_small(&section, "batch", 1, 256, &udp->batch);
	if (!result)
		result = read_small(&section, "port", 1, 65535, &udp->port);
	return result;
}

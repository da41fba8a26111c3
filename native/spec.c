// SPDX-License-Identifier: GPL-2.0-or-later
#include "spec.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "error.h"
#include "frame.h"
#include "spec_value.h"

#define HOUR_S 3600.0
#define DEFAULT_INTERVAL_NS (100 * NS_PER_MS)

static const char *const role_names[] = {"sink", "forward", "generate", NULL};
static const char *const wakeup_names[] = {"busy", "poll", NULL};
const char *const attach_mode_names[] = {"native", "skb", NULL};
const char *const bind_mode_names[] = {"copy", "zero-copy", NULL};
const char *const generator_names[] = {"live-frames", "af-packet", NULL};

#define COMMON_KEYS "role", "ifname", "interval_s", "sampler_cpu", "attach_mode"
#define DUT_KEYS COMMON_KEYS, "case", "settle_s", "measure_s"

static const char *const sink_keys[] = {DUT_KEYS, NULL};
static const char *const socket_keys[] = {DUT_KEYS, "xsk", NULL};
static const char *const forward_keys[] = {DUT_KEYS, "egress_ifname", NULL};
static const char *const generate_keys[] = {COMMON_KEYS, "generator", "cpus",   "batch",
					    "count",     "frame",     "window", NULL};
static const char *const xsk_keys[] = {"bind_mode", "queues",    "app_cpu", "wakeup",     "batch",
				       "ring_rx",   "ring_fill", "frames",  "frame_size", NULL};
static const char *const frame_keys[] = {"dst_mac", "src_mac", "frame_len", "flows", NULL};

static int read_small(const struct section *section, const char *key, int min, int max, int *value)
{
	int64_t number;
	int result = read_int(section, key, min, max, &number);

	*value = number;
	return result;
}

static int parse_case(const struct section *top, struct spec *spec)
{
	char allowed[512] = "a case of this role: ";
	char name[64];
	int result = read_string(top, "case", name, sizeof(name));

	if (result)
		return result;
	spec->test_case = find_case(name);
	if (spec->test_case && (int)spec->test_case->role == spec->role)
		return 0;
	for (size_t i = 0; i < test_cases_len; i++)
		if ((int)test_cases[i].role == spec->role && !test_cases[i].bare) {
			size_t len = strlen(allowed);

			snprintf(allowed + len, sizeof(allowed) - len, "%s%s",
				 allowed[len - 2] == ':' ? "" : ", ", test_cases[i].name);
		}
	return bad_value(top, "case", allowed);
}

static int parse_common(const struct section *top, struct spec *spec)
{
	int result = read_string(top, "ifname", spec->ifname, sizeof(spec->ifname));

	spec->interval_ns = DEFAULT_INTERVAL_NS;
	if (!result && json_object_get(top->object, "interval_s"))
		result = read_seconds(top, "interval_s", 0.001, HOUR_S, &spec->interval_ns);
	if (!result)
		result = read_small(top, "sampler_cpu", 0, MAX_CPUS - 1, &spec->sampler_cpu);
	if (!result)
		result = read_choice(top, "attach_mode", attach_mode_names, &spec->attach_mode);
	return result;
}

static int parse_xsk(const struct section *top, struct xsk_spec *xsk)
{
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

static int parse_dut(const struct section *top, struct spec *spec)
{
	const char *const *keys;
	int result = parse_case(top, spec);

	if (result)
		return result;
	keys = spec->role == ROLE_FORWARD ? forward_keys
	       : spec->test_case->sockets ? socket_keys
					  : sink_keys;
	result = section_check_keys(top, keys);
	if (!result)
		result = parse_common(top, spec);
	if (!result)
		result = read_seconds(top, "settle_s", 0, HOUR_S, &spec->settle_ns);
	if (!result)
		result = read_seconds(top, "measure_s", 0.001, HOUR_S, &spec->measure_ns);
	if (!result && spec->test_case->sockets)
		result = parse_xsk(top, &spec->xsk);
	if (!result && json_object_get(top->object, "egress_ifname"))
		result = read_string(top, "egress_ifname", spec->egress_ifname,
				     sizeof(spec->egress_ifname));
	return result;
}

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

/* Without a count its end would depend on a clock; with two threads it had two generators. */
static int parse_window(const struct section *top, struct generator_spec *generator)
{
	generator->window = NO_WINDOW;
	if (!json_object_get(top->object, "window"))
		return 0;
	if (!generator->count)
		return bad_value(top, "window", "allowed without a count");
	if (generator->cpus_len != 1)
		return bad_value(top, "window", "allowed with more than one of cpus");
	return read_int(top, "window", 0, INT32_MAX, &generator->window);
}

static int parse_generate(const struct section *top, struct spec *spec)
{
	struct generator_spec *generator = &spec->generator;
	int result = section_check_keys(top, generate_keys);

	if (!result)
		result = parse_common(top, spec);
	if (!result)
		result = read_choice(top, "generator", generator_names, &generator->kind);
	if (!result)
		result = read_int_list(top, "cpus", MAX_CPUS - 1, generator->cpus,
				       &generator->cpus_len);
	if (!result)
		result = read_small(top, "batch", 1, 256, &generator->batch);
	if (!result)
		result = read_int(top, "count", 0, 1000000000000LL, &generator->count);
	if (!result)
		result = parse_window(top, generator);
	if (!result)
		result = parse_frame(top, &generator->frame);
	return result;
}

int spec_parse(const char *line, struct spec *spec)
{
	json_error_t error;
	struct section top = {.document = "spec", .path = ""};
	int result;

	memset(spec, 0, sizeof(*spec));
	top.object = json_loads(line, JSON_REJECT_DUPLICATES, &error);
	if (!json_is_object(top.object)) {
		result = fail_usage("spec", "parse", "%s",
				    top.object ? "not an object" : error.text);
		goto out;
	}
	result = read_choice(&top, "role", role_names, &spec->role);
	if (!result)
		result = spec->role == ROLE_GENERATE ? parse_generate(&top, spec)
						     : parse_dut(&top, spec);
out:
	json_decref(top.object);
	return result;
}

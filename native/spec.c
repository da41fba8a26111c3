// SPDX-License-Identifier: GPL-2.0-or-later
#include "spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "error.h"
#include "spec_section.h"

#define HOUR_S 3600.0
#define DEFAULT_INTERVAL_NS (100 * NS_PER_MS)
#define KEYS_MAX 32

const char *const attach_mode_names[] = {"native", "skb", NULL};

#define COMMON_KEYS "role", "ifname", "interval_s", "sampler_cpu", "attach_mode"
#define PASS_KEYS "pass", "pmu_group"
#define SENDING_KEYS "count", "frame", "window"

static const char *const common_keys[] = {COMMON_KEYS, "case",    "settle_s",
					  "measure_s", PASS_KEYS, NULL};
static const char *const ring_keys[] = {"role",     "interval_s", "sampler_cpu", "case",
					"settle_s", "measure_s",  NULL};
static const char *const forward_keys[] = {"egress_ifname", NULL};
static const char *const transmit_keys[] = {SENDING_KEYS, NULL};
static const char *const generate_keys[] = {COMMON_KEYS, "generator",   "cpus",
					    "rate_pps",  "closed_loop", "promiscuous",
					    "batch",     SENDING_KEYS,  NULL};

static const struct {
	unsigned int bit;
	const char *key;
	int (*parse)(const struct section *top, struct spec *spec);
} sections[] = {
	{SECTION_XDP, "xdp", parse_xdp},    {SECTION_XSK, "xsk", parse_xsk},
	{SECTION_WORK, "work", parse_work}, {SECTION_PACKET, "packet", parse_packet},
	{SECTION_UDP, "udp", parse_udp},    {SECTION_RING, "ring", parse_ring},
};

#define SECTIONS_LEN (sizeof(sections) / sizeof(sections[0]))

static bool has_role(const struct test_case *test_case, int role)
{
	return test_case->roles & ROLE_BIT(role);
}

static int fail_case(const struct section *top, int role)
{
	char allowed[4096] = "a case of this role: ";
	const char *separator = "";
	const struct test_case *test_case;

	for (size_t i = 0; (test_case = case_at(i)); i++)
		if (has_role(test_case, role) && !test_case->bare) {
			size_t len = strlen(allowed);

			snprintf(allowed + len, sizeof(allowed) - len, "%s%s", separator,
				 test_case->name);
			separator = ", ";
		}
	return bad_value(top, "case", allowed);
}

static int parse_case(const struct section *top, struct spec *spec)
{
	char name[64];
	int result = read_string(top, "case", name, sizeof(name));

	if (result)
		return result;
	spec->test_case = find_case(name);
	return spec->test_case && has_role(spec->test_case, spec->role)
		       ? 0
		       : fail_case(top, spec->role);
}

static int parse_port(const struct section *top, struct spec *spec)
{
	int result = read_string(top, "ifname", spec->ifname, sizeof(spec->ifname));

	return result ? result
		      : read_choice(top, "attach_mode", attach_mode_names, &spec->attach_mode);
}

static int parse_common(const struct section *top, struct spec *spec)
{
	int result = spec->role == ROLE_RING ? 0 : parse_port(top, spec);

	spec->interval_ns = DEFAULT_INTERVAL_NS;
	if (!result && json_object_get(top->object, "interval_s"))
		result = read_seconds(top, "interval_s", 0.001, HOUR_S, &spec->interval_ns);
	if (!result)
		result = read_small(top, "sampler_cpu", 0, MAX_CPUS - 1, &spec->sampler_cpu);
	return result;
}

static size_t add_keys(const char **keys, size_t len, const char *const *more)
{
	for (; *more; more++)
		keys[len++] = *more;
	return len;
}

static int check_dut_keys(const struct section *top, const struct spec *spec)
{
	const char *keys[KEYS_MAX] = {NULL};
	size_t len = add_keys(keys, 0, spec->role == ROLE_RING ? ring_keys : common_keys);

	if (spec->role == ROLE_FORWARD)
		len = add_keys(keys, len, forward_keys);
	if (spec->role == ROLE_TRANSMIT)
		len = add_keys(keys, len, transmit_keys);
	for (size_t i = 0; i < SECTIONS_LEN; i++)
		if (spec->test_case->sections & sections[i].bit)
			keys[len++] = sections[i].key;
	return section_check_keys(top, keys);
}

static int parse_sections(const struct section *top, struct spec *spec)
{
	int result = 0;

	for (size_t i = 0; !result && i < SECTIONS_LEN; i++)
		if (spec->test_case->sections & sections[i].bit)
			result = sections[i].parse(top, spec);
	return result;
}

static int parse_dut(const struct section *top, struct spec *spec)
{
	int result = parse_case(top, spec);

	if (!result)
		result = check_dut_keys(top, spec);
	if (!result)
		result = parse_common(top, spec);
	if (!result)
		result = read_seconds(top, "settle_s", 0, HOUR_S, &spec->settle_ns);
	if (!result)
		result = read_seconds(top, "measure_s", 0.001, HOUR_S, &spec->measure_ns);
	if (!result)
		result = parse_pass(top, spec);
	if (!result)
		result = parse_sections(top, spec);
	if (!result && spec->role == ROLE_TRANSMIT)
		result = parse_sending(top, &spec->generator);
	if (!result && json_object_get(top->object, "egress_ifname"))
		result = read_string(top, "egress_ifname", spec->egress_ifname,
				     sizeof(spec->egress_ifname));
	return result;
}

static int parse_generate(const struct section *top, struct spec *spec)
{
	int result = section_check_keys(top, generate_keys);

	if (!result)
		result = parse_common(top, spec);
	if (!result)
		result = parse_generator(top, &spec->generator);
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

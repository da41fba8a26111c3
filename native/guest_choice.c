// SPDX-License-Identifier: GPL-2.0-or-later
#include "guest_choice.h"

#include <stdio.h>

#define NAME_LEN 64

static const char *const end_names[SIDES] = {"DUT", "tester"};

static const char *text_of(json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static void replace(char *text, char from, char to)
{
	for (; *text; text++)
		if (*text == from)
			*text = to;
}

/* Capabilities are spelled with underscores, the values of a spec with hyphens. */
static bool has(json_t *probe, enum side side, const char *prefix, const char *value, char *reason,
		size_t size)
{
	char name[NAME_LEN];
	json_t *answer;

	snprintf(name, sizeof(name), "%s%s", prefix, value);
	replace(name, '-', '_');
	answer = json_object_get(json_object_get(probe, "can"), name);
	if (json_is_true(json_object_get(answer, "ok")))
		return true;
	replace(name, '_', ' ');
	snprintf(reason, size, "%s %s has no %s: %s", end_names[side], text_of(probe, "ifname"),
		 name, answer ? text_of(answer, "reason") : "the agent did not try it");
	return false;
}

static bool dut_can(json_t *probe, json_t *spec, char *reason, size_t size)
{
	json_t *xsk = json_object_get(spec, "xsk");

	return has(probe, SIDE_DUT, "xdp_", text_of(spec, "attach_mode"), reason, size) &&
	       (!xsk || has(probe, SIDE_DUT, "xsk_", text_of(xsk, "bind_mode"), reason, size));
}

static bool tester_can(json_t *probe, json_t *spec, char *reason, size_t size)
{
	return has(probe, SIDE_TESTER, "xdp_", text_of(spec, "attach_mode"), reason, size) &&
	       (!*text_of(spec, "generator") ||
		has(probe, SIDE_TESTER, "", text_of(spec, "generator"), reason, size));
}

void guest_choose(json_t *const probes[SIDES], struct guest_trial *trial, char *reason, size_t size)
{
	json_t *spec;
	size_t i;

	*reason = 0;
	if (probes[SIDE_DUT] && !dut_can(probes[SIDE_DUT], trial->specs[SIDE_DUT], reason, size))
		return;
	json_array_foreach(trial->testers, i, spec) {
		trial->specs[SIDE_TESTER] = spec;
		if (!probes[SIDE_TESTER] || tester_can(probes[SIDE_TESTER], spec, reason, size)) {
			*reason = 0;
			return;
		}
	}
}

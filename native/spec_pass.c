// SPDX-License-Identifier: GPL-2.0-or-later
/* What is looked at beside the packets, and so whether their rate means anything. */
#include "spec_section.h"

static const char *const pass_names[] = {"rate", "diagnostic", "pmu", NULL};

int parse_pass(const struct section *top, struct spec *spec)
{
	bool has_group = json_object_get(top->object, "pmu_group");
	int result = 0;

	spec->pass = PASS_RATE;
	if (json_object_get(top->object, "pass"))
		result = read_choice(top, "pass", pass_names, &spec->pass);
	if (!result && has_group && spec->pass != PASS_PMU)
		return bad_value(top, "pmu_group", "allowed without pass pmu");
	if (!result && spec->pass == PASS_PMU)
		result = read_choice(top, "pmu_group", pmu_group_names, &spec->pmu_group);
	return result;
}

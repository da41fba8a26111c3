// SPDX-License-Identifier: GPL-2.0-or-later
#include "counters.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

static int add_absent(struct counters *counters, const char *name, json_t *reason)
{
	json_t *entry;

	if (!counters->absent) {
		json_decref(reason);
		return 0;
	}
	entry = json_pack("{s:o, s:o}", "source", json_sprintf("%s.%s", counters->source, name),
			  "reason", reason);
	return json_array_append_new(counters->absent, entry) ? fail(ENOMEM, name, "keep") : 0;
}

int counters_leave_out(struct counters *counters, const char *reason, const char *format, ...)
{
	char name[160];
	va_list args;

	va_start(args, format);
	vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	return add_absent(counters, name, json_string(reason));
}

int counters_set(struct counters *counters, uint64_t value, const char *format, ...)
{
	char name[160] = "";
	va_list args;
	size_t len = 0;

	if (!counters->absent)
		len = snprintf(name, sizeof(name), "%s.", counters->source);
	va_start(args, format);
	vsnprintf(name + len, sizeof(name) - len, format, args);
	va_end(args);
	if (value > INT64_MAX)
		return add_absent(
			counters, name,
			json_sprintf("%llu is above 2^63 - 1", (unsigned long long)value));
	/* Some drivers use a name twice; both values are kept. */
	for (int i = 2; json_object_get(counters->object, name); i++) {
		len = strcspn(name, "#");
		snprintf(name + len, sizeof(name) - len, "#%d", i);
	}
	if (json_object_set_new(counters->object, name, json_integer(value)))
		return fail(ENOMEM, name, "keep");
	return 0;
}

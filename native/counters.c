// SPDX-License-Identifier: GPL-2.0-or-later
#include "counters.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

int counters_set(struct counters *counters, uint64_t value, const char *format, ...)
{
	char name[160];
	va_list args;
	size_t len;

	len = snprintf(name, sizeof(name), "%s", counters->prefix);
	va_start(args, format);
	vsnprintf(name + len, sizeof(name) - len, format, args);
	va_end(args);
	/* jansson's integers are signed: a counter that does not fit must not come out negative. */
	if (value > INT64_MAX)
		return fail_because(EOVERFLOW, name, "read", "%llu is above 2^63 - 1",
				    (unsigned long long)value);
	/* Some drivers use a name twice; both values are kept. */
	for (int i = 2; json_object_get(counters->object, name); i++) {
		len = strcspn(name, "#");
		snprintf(name + len, sizeof(name) - len, "#%d", i);
	}
	if (json_object_set_new(counters->object, name, json_integer(value)))
		return fail(ENOMEM, name, "keep");
	return 0;
}

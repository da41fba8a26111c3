// SPDX-License-Identifier: GPL-2.0-or-later
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Thread_local struct failure failure;

static void remember(int err, bool usage, const char *object, const char *step)
{
	memset(&failure, 0, sizeof(failure));
	failure.err = err;
	failure.usage = usage;
	snprintf(failure.object, sizeof(failure.object), "%s", object);
	snprintf(failure.step, sizeof(failure.step), "%s", step);
}

int fail(int err, const char *object, const char *step)
{
	remember(err, false, object, step);
	snprintf(failure.reason, sizeof(failure.reason), "%s", strerror(err));
	return -err;
}

int fail_result(void)
{
	return failure.err ? -failure.err : -EINVAL;
}

int fail_because(int err, const char *object, const char *step, const char *format, ...)
{
	va_list args;

	remember(err, false, object, step);
	va_start(args, format);
	vsnprintf(failure.reason, sizeof(failure.reason), format, args);
	va_end(args);
	return fail_result();
}

int fail_usage(const char *object, const char *step, const char *format, ...)
{
	va_list args;

	remember(0, true, object, step);
	va_start(args, format);
	vsnprintf(failure.reason, sizeof(failure.reason), format, args);
	va_end(args);
	return fail_result();
}

int fail_hint(int result, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(failure.hint, sizeof(failure.hint), format, args);
	va_end(args);
	return result;
}

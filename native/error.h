/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_ERROR_H
#define XDPREPRO_ERROR_H

#include <stdbool.h>

/*
 * Like errno, with words: what failed, while doing what, why, and what would mend it. A function
 * that fails calls fail() once, where it knows most, and its callers only pass the negative number
 * on.
 */
struct failure {
	char object[64];
	char step[32];
	char reason[400];
	char hint[200];
	int err;    /* 0: not a system error */
	bool usage; /* the command line, the spec or a command is wrong: exit status 2 */
};

extern _Thread_local struct failure failure;

/* Remember a failure and return -err. Without a format the reason is the system's text for err. */
int fail(int err, const char *object, const char *step);
int fail_because(int err, const char *object, const char *step, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
int fail_usage(const char *object, const char *step, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Add the one command or setting that mends it; returns its first argument. */
int fail_hint(int result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The result that goes with what was remembered, where a function returns no number. */
int fail_result(void);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_OUT_H
#define XDPREPRO_OUT_H

#include <jansson.h>

/*
 * Print one object as one line, and release it. An object that could not be made (NULL) is a
 * failure. Only the main thread prints, so lines never mix.
 */
int out_line(json_t *line);

/* What fail() remembered, as an `error` object, and printing it. */
json_t *failure_describe(void);
int out_failure(void);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_OUT_H
#define XDPREPRO_OUT_H

#include <jansson.h>

/*
 * Print one object as one line, and release it. An object that could not be made (NULL) is a
 * failure. Only the main thread prints, so lines never mix.
 */
int out_line(json_t *line);

/* Print what fail() remembered. */
int out_failure(void);

#endif

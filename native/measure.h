/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_MEASURE_H
#define XDPREPRO_MEASURE_H

#include "command.h"
#include "sample.h"
#include "spec.h"

/* Like command_wait(); for roles that do something else while they wait. */
typedef int (*wait_for_command)(void *context, int64_t at_ns, enum command *next);

/*
 * Sample the phases `settle` and `measure` from now on, then print that it is measured. A command
 * that comes before the end of them ends it; else `next` is COMMAND_TIMEOUT.
 */
int measure(struct sampler *sampler, const struct spec *spec, wait_for_command wait, void *context,
	    enum command *next);

#endif

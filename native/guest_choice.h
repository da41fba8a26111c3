/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_GUEST_CHOICE_H
#define XDPREPRO_GUEST_CHOICE_H

#include <jansson.h>
#include <stddef.h>

#include "guest_job.h"

/*
 * Take the first of the tester's specs whose generator its port has. Where the probes say that the
 * trial cannot be, `reason` says why; it is empty else, and where nothing was probed (NULL).
 */
void guest_choose(json_t *const probes[SIDES], struct guest_trial *trial, char *reason,
		  size_t size);

#endif

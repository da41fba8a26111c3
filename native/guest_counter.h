/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_GUEST_COUNTER_H
#define XDPREPRO_GUEST_COUNTER_H

#include <jansson.h>

#include "guest_job.h"

/* Note the programs that an agent has in the kernel, from its `ready`. */
void guest_counter_note(enum side side, json_t *ready);

/*
 * Tell QEMU's plugin (window.h) where functions are, those noted among them. Only now, because the
 * kernel makes code of its own (dispatchers) when the first programs are attached.
 */
int guest_counter_arm(enum side receiver);

#endif

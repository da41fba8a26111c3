/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_GUEST_H
#define XDPREPRO_GUEST_H

#include <stdbool.h>

/* We are PID 1 of a micro guest. */
bool guest_is_init(const char *program);

/* Do /job.json and power off. */
void guest_run(void) __attribute__((noreturn));

#endif

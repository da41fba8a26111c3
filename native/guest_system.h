/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_GUEST_SYSTEM_H
#define XDPREPRO_GUEST_SYSTEM_H

#include <jansson.h>

/* Standard input, output and error become the console, and /proc, /sys and /dev are there. */
int guest_system_start(void);

/* Load /modules/NAME for each name; a failure names the module. */
int guest_load_modules(json_t *names);

/* Kernels without BPF are found out here, before anything else fails for the want of it. */
int guest_check_bpf(void);

/* Write each setting below /proc/sys; those that this kernel lacks are added to `absent`. */
int guest_set_sysctls(json_t *settings, json_t *absent);

/*
 * There is one CPU: packets that are left to the kernel's softirq thread must not wait for whoever
 * runs, or the generator overruns the ring that they are in.
 */
int guest_prefer_softirqs(void);

/* One line for a person on the console. */
void guest_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

void guest_power_off(void) __attribute__((noreturn));

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_THREAD_H
#define XDPREPRO_THREAD_H

#include <pthread.h>

/* Pin the calling thread. `key` names the spec's key in the message. */
int thread_pin_self(const char *key, int cpu);

/* Start a thread that never runs anywhere but on its CPU; it is named after both: app_cpu.3. */
int thread_start(pthread_t *thread, const char *key, int cpu, void *(*run)(void *), void *argument);

#endif

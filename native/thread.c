// SPDX-License-Identifier: GPL-2.0-or-later
#include "thread.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "spec.h"

static int fail_pin(int err, const char *key, int cpu)
{
	char name[64];

	snprintf(name, sizeof(name), "%s: CPU %d", key, cpu);
	if (err == EINVAL)
		return fail_because(err, name, "pin", "no such CPU is online and allowed here");
	return fail(err, name, "pin");
}

int thread_pin_self(const char *key, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? fail_pin(errno, key, cpu) : 0;
}

int thread_start(pthread_t *thread, const char *key, int cpu, void *(*run)(void *), void *argument)
{
	pthread_attr_t attr;
	char name[16]; /* as long as the kernel takes */
	cpu_set_t set;
	int err;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	pthread_attr_init(&attr);
	err = pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
	if (!err)
		err = pthread_create(thread, &attr, run, argument);
	if (!err) {
		snprintf(name, sizeof(name), "%s.%d", key, cpu);
		pthread_setname_np(*thread, name);
	}
	pthread_attr_destroy(&attr);
	return err ? fail_pin(err, key, cpu) : 0;
}

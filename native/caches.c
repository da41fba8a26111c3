// SPDX-License-Identifier: GPL-2.0-or-later
#include "caches.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define INDICES 8 /* more than any CPU has */

static bool read_word(int cpu, int index, const char *name, char *word)
{
	char path[96];
	FILE *file;
	bool found;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index,
		 name);
	file = fopen(path, "re");
	found = file && fscanf(file, "%15s", word) == 1;
	if (file)
		fclose(file);
	return found;
}

/* The level of a data cache, and its size; 0: there is none, or it is for instructions. */
static int read_cache(int cpu, int index, long long *bytes)
{
	char type[16], size[16], level[16];
	long long kib;
	int number = 0;

	if (!read_word(cpu, index, "type", type) || !strcmp(type, "Instruction") ||
	    !read_word(cpu, index, "size", size) || sscanf(size, "%lldK", &kib) != 1 ||
	    !read_word(cpu, index, "level", level))
		return 0;
	sscanf(level, "%d", &number);
	*bytes = kib * 1024;
	return number;
}

static int first_cpu(void)
{
	cpu_set_t set;
	int cpu = 0;

	CPU_ZERO(&set);
	sched_getaffinity(0, sizeof(set), &set);
	while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &set))
		cpu++;
	return cpu;
}

json_t *describe_caches(void)
{
	json_t *caches = json_object();
	int cpu = first_cpu(), last = 0;
	long long bytes = 0;
	char name[16];

	for (int index = 0; index < INDICES; index++) {
		int level = read_cache(cpu, index, &bytes);

		if (level == 1 || level == 2) {
			snprintf(name, sizeof(name), "l%d_bytes", level);
			json_object_set_new(caches, name, json_integer(bytes));
		}
		if (level > last) {
			json_object_set_new(caches, "llc_bytes", json_integer(bytes));
			last = level;
		}
	}
	return caches;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* What sysfs keeps for each CPU: the frequency it has now, and how often heat slowed it down. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "host.h"
#include "sysfs.h"

#define CPUS "/sys/devices/system/cpu"

/* Every file of a CPU's directory, or only one of them, that holds a number. */
static int keep_cpu(const char *cpu, const char *directory, const char *only,
		    struct counters *counters)
{
	char path[SYSFS_PATH_MAX];
	struct dirent **entries;
	uint64_t value;
	int len, result = 0;

	sysfs_path(path, CPUS "/%s/%s", cpu, directory);
	len = sysfs_list(path, &entries);
	for (int i = 0; !result && i < len; i++) {
		const char *name = entries[i]->d_name;

		if (only && strcmp(name, only))
			continue;
		sysfs_path(path, CPUS "/%s/%s/%s", cpu, directory, name);
		if (!sysfs_read_number(path, &value))
			result = counters_set(counters, value, "%s.%s", cpu, name);
	}
	sysfs_free(entries, len);
	return result;
}

static int read_cpus(const char *directory, const char *only, struct counters *counters)
{
	struct dirent **entries;
	int len = sysfs_list(CPUS, &entries);
	int result = 0;

	if (len < 0)
		return fail(-len, CPUS, "open");
	for (int i = 0; !result && i < len; i++) {
		const char *name = entries[i]->d_name;

		if (!strncmp(name, "cpu", 3) && isdigit((unsigned char)name[3]))
			result = keep_cpu(name, directory, only, counters);
	}
	sysfs_free(entries, len);
	if (!result && !json_object_size(counters->object))
		result = fail_because(ENOENT, CPUS, "find", "no CPU has %s%s%s", directory,
				      only ? "/" : "", only ? only : "");
	return result;
}

int cpufreq_read(const void *unused, struct counters *counters)
{
	(void)unused;
	return read_cpus("cpufreq", "scaling_cur_freq", counters);
}

int thermal_read(const void *unused, struct counters *counters)
{
	(void)unused;
	return read_cpus("thermal_throttle", NULL, counters);
}

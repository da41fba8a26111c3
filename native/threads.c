// SPDX-License-Identifier: GPL-2.0-or-later
/* How often the agent's own threads were switched, and how long they ran and waited. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "host.h"
#include "sysfs.h"

#define PATH "/proc/self/task"

/* Numbers of threads differ from trial to trial, so they go by name; the first is the sampler. */
static int read_name(int tid, char *name, size_t size)
{
	char path[SYSFS_PATH_MAX];

	sysfs_path(path, PATH "/%d/comm", tid);
	return tid == getpid() ? snprintf(name, size, "sampler") < 0
			       : sysfs_read_line(path, name, size);
}

static int keep_switches(int tid, const char *name, struct counters *counters)
{
	char path[SYSFS_PATH_MAX], line[128], key[64];
	uint64_t value;
	FILE *file;
	int result = 0;

	sysfs_path(path, PATH "/%d/status", tid);
	file = fopen(path, "re");
	if (!file)
		return fail(errno, path, "open");
	while (!result && fgets(line, sizeof(line), file))
		if (sscanf(line, "%63[a-z_]: %" SCNu64, key, &value) == 2 &&
		    strstr(key, "ctxt_switches"))
			result = counters_set(counters, value, "%s.%s", name, key);
	fclose(file);
	return result;
}

static int keep_schedule(int tid, const char *name, struct counters *counters)
{
	char path[SYSFS_PATH_MAX], line[128];
	uint64_t run_ns, wait_ns;
	int result;

	sysfs_path(path, PATH "/%d/schedstat", tid);
	/* Kernels without CONFIG_SCHED_INFO have no such file. */
	if (sysfs_read_line(path, line, sizeof(line)) ||
	    sscanf(line, "%" SCNu64 " %" SCNu64, &run_ns, &wait_ns) != 2)
		return 0;
	result = counters_set(counters, run_ns, "%s.run_ns", name);
	return result ? result : counters_set(counters, wait_ns, "%s.wait_ns", name);
}

static int keep_thread(int tid, struct counters *counters)
{
	char name[32];
	int result;

	if (read_name(tid, name, sizeof(name)))
		return 0; /* it has just ended */
	result = keep_switches(tid, name, counters);
	return result ? result : keep_schedule(tid, name, counters);
}

int threads_read(const void *unused, struct counters *counters)
{
	struct dirent **entries;
	int len = sysfs_list(PATH, &entries);
	int result = 0;

	(void)unused;
	if (len < 0)
		return fail(-len, PATH, "open");
	for (int i = 0; !result && i < len; i++)
		result = keep_thread(atoi(entries[i]->d_name), counters);
	sysfs_free(entries, len);
	return result;
}

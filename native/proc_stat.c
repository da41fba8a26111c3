// SPDX-License-Identifier: GPL-2.0-or-later
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counters.h"
#include "error.h"

#define PATH "/proc/stat"

static const char *const names[] = {"user", "nice",    "system", "idle",  "iowait",
				    "irq",  "softirq", "steal",  "guest", "guest_nice"};

static int keep_line(const char *line, struct counters *counters)
{
	char *end;
	unsigned long cpu = strtoul(line + strlen("cpu"), &end, 10);
	unsigned long long value;
	int result = 0;

	for (size_t i = 0; !result && i < sizeof(names) / sizeof(names[0]); i++) {
		line = end;
		value = strtoull(line, &end, 10);
		if (end != line)
			result = counters_set(counters, value, "cpu%lu.%s", cpu, names[i]);
	}
	return result;
}

int proc_stat_read(const void *unused, struct counters *counters)
{
	FILE *file = fopen(PATH, "re");
	char *line = NULL;
	size_t size = 0;
	int result;

	(void)unused;
	if (!file)
		return fail(errno, PATH, "open");
	result = counters_set(counters, sysconf(_SC_CLK_TCK), "clk_tck");
	while (!result && getline(&line, &size, file) > 0)
		if (!strncmp(line, "cpu", 3) && isdigit((unsigned char)line[3]))
			result = keep_line(line, counters);
	free(line);
	fclose(file);
	return result;
}

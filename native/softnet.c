// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "counters.h"
#include "error.h"

#define PATH "/proc/net/softnet_stat"

/* Columns 3 to 8 have been 0 since fastroute and the counters of collisions went. */
static const struct {
	int column;
	const char *name;
} names[] = {
	{0, "processed"},         {1, "dropped"},      {2, "time_squeeze"}, {9, "received_rps"},
	{10, "flow_limit_count"}, {11, "backlog_len"}, {13, "input_qlen"},  {14, "process_qlen"},
};

#define COLUMN_CPU 12 /* since 5.10 */
#define COLUMNS_MAX 32

static int keep_line(const char *line, struct counters *counters)
{
	unsigned long values[COLUMNS_MAX];
	int len = 0, result = 0;
	char *end;

	for (; len < COLUMNS_MAX; line = end, len++) {
		values[len] = strtoul(line, &end, 16);
		if (end == line)
			break;
	}
	if (len <= COLUMN_CPU)
		return fail_because(0, PATH, "read", "%d columns, so no number of the CPU", len);
	for (size_t i = 0; !result && i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].column < len)
			result = counters_set(counters, values[names[i].column], "cpu%lu.%s",
					      values[COLUMN_CPU], names[i].name);
	return result;
}

int softnet_read(const void *unused, struct counters *counters)
{
	FILE *file = fopen(PATH, "re");
	char line[512];
	int result = 0;

	(void)unused;
	if (!file)
		return fail(errno, PATH, "open");
	while (!result && fgets(line, sizeof(line), file))
		result = keep_line(line, counters);
	fclose(file);
	return result;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* The two tables of /proc that have a column for each CPU. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "host.h"
#include "spec.h"

struct table {
	const char *path;
	unsigned int cpus[MAX_CPUS];
	size_t cpus_len;
	struct counters *counters;
};

/* Like "CPU0 CPU2": columns are CPUs that are online, so numbers may have gaps. */
static int take_header(struct table *table, const char *line)
{
	while ((line = strstr(line, "CPU"))) {
		if (table->cpus_len == MAX_CPUS)
			return fail_because(0, table->path, "read", "more than %d CPUs", MAX_CPUS);
		line += strlen("CPU");
		table->cpus[table->cpus_len++] = strtoul(line, NULL, 10);
	}
	return table->cpus_len ? 0 : fail_because(0, table->path, "read", "no CPU in its header");
}

/*
 * Of "IO-APIC   2-edge      timer" or "PCI-MSI 524288-edge eth0-TxRx-0": who handles the interrupt.
 * The kernel puts two spaces before it, and pads what comes earlier.
 */
static const char *find_handler(char *text)
{
	char *end = text + strlen(text);

	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	while (end > text && !(end[-1] == ' ' && end - 1 > text && end[-2] == ' '))
		end--;
	return end;
}

static int keep_count(const struct table *table, size_t column, uint64_t count, const char *row,
		      const char *handler)
{
	/* Most interrupts never come to most CPUs; what is not there is zero. */
	if (!count)
		return 0;
	return counters_set(table->counters, count, "cpu%u.%s%s%s", table->cpus[column], row,
			    *handler ? "." : "", handler);
}

/* Rows are "NAME: count count ... text"; those of all CPUs together (ERR, MIS) have one count. */
static int keep_row(const struct table *table, char *line)
{
	uint64_t counts[MAX_CPUS];
	char *name = line + strspn(line, " ");
	char *at = strchr(name, ':'), *end;
	const char *handler = "";
	size_t len = 0;
	int result = 0;

	if (!at)
		return 0;
	*at++ = '\0';
	for (; len < table->cpus_len; at = end, len++) {
		counts[len] = strtoull(at, &end, 10);
		if (end == at)
			break;
	}
	if (isdigit((unsigned char)name[0]))
		handler = find_handler(at);
	if (len < table->cpus_len)
		return len && counts[0] ? counters_set(table->counters, counts[0], "%s", name) : 0;
	for (size_t i = 0; !result && i < len; i++)
		result = keep_count(table, i, counts[i], name, handler);
	return result;
}

static int read_table(const char *path, struct counters *counters)
{
	struct table table = {.path = path, .counters = counters};
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	int result;

	if (!file)
		return fail(errno, path, "open");
	result = take_header(&table, getline(&line, &size, file) > 0 ? line : "");
	while (!result && getline(&line, &size, file) > 0)
		result = keep_row(&table, line);
	free(line);
	fclose(file);
	return result;
}

int softirqs_read(const void *unused, struct counters *counters)
{
	(void)unused;
	return read_table("/proc/softirqs", counters);
}

int interrupts_read(const void *unused, struct counters *counters)
{
	(void)unused;
	return read_table("/proc/interrupts", counters);
}

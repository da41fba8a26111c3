// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "error.h"

#define PATH "/proc/self/net/snmp" /* of our network namespace */

static const char *const protocols[] = {"Ip", "Udp"};

static bool is_wanted(const char *line)
{
	for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++)
		if (!strncmp(line, protocols[i], strlen(protocols[i])) &&
		    line[strlen(protocols[i])] == ':')
			return true;
	return false;
}

/* Two lines of a protocol: names, then values, each with the protocol in front. */
static int keep_pair(char *names, char *values, struct counters *counters)
{
	char *next_name, *next_value;
	const char *protocol = strtok_r(names, ": \n", &next_name);
	const char *name, *value;
	int result = 0;

	strtok_r(values, ": \n", &next_value);
	while (!result && (name = strtok_r(NULL, " \n", &next_name)) &&
	       (value = strtok_r(NULL, " \n", &next_value)))
		result = counters_set(counters, strtoull(value, NULL, 10), "%s.%s", protocol, name);
	return result;
}

int snmp_read(const void *unused, struct counters *counters)
{
	FILE *file = fopen(PATH, "re");
	char names[1024], values[1024];
	int result = 0;

	(void)unused;
	if (!file)
		return fail(errno, PATH, "open");
	while (!result && fgets(names, sizeof(names), file) && fgets(values, sizeof(values), file))
		if (is_wanted(names))
			result = keep_pair(names, values, counters);
	fclose(file);
	return result;
}

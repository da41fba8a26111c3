// SPDX-License-Identifier: GPL-2.0-or-later
/* Occupancy of the last-level cache (a gauge) and memory traffic, of every group that exists. */
#include <errno.h>
#include <string.h>

#include "error.h"
#include "host.h"
#include "sysfs.h"

#define ROOT "/sys/fs/resctrl"

/* A file such as mon_data/mon_L3_00/llc_occupancy; it may say "Unavailable" in place of a number.
 */
static int keep_file(const char *group, const char *domain, const char *file,
		     struct counters *counters)
{
	char path[SYSFS_PATH_MAX], line[64];
	uint64_t value;

	sysfs_path(path, ROOT "%s/mon_data/%s/%s", group, domain, file);
	if (!sysfs_read_number(path, &value))
		return counters_set(counters, value, "%s%s%s.%s", group[0] ? group + 1 : "",
				    group[0] ? "." : "", domain, file);
	if (sysfs_read_line(path, line, sizeof(line)))
		return 0; /* its group has just gone */
	return counters_leave_out(counters, line, "%s%s%s.%s", group[0] ? group + 1 : "",
				  group[0] ? "." : "", domain, file);
}

static int keep_domain(const char *group, const char *domain, struct counters *counters)
{
	char path[SYSFS_PATH_MAX];
	struct dirent **entries;
	int len, result = 0;

	sysfs_path(path, ROOT "%s/mon_data/%s", group, domain);
	len = sysfs_list(path, &entries);
	for (int i = 0; !result && i < len; i++)
		result = keep_file(group, domain, entries[i]->d_name, counters);
	sysfs_free(entries, len);
	return result;
}

static int keep_groups(const char *directory, struct counters *counters);

/* `group` is "" for that of all CPUs and tasks without another, else a path like /mon_groups/NAME.
 */
static int keep_group(const char *group, struct counters *counters)
{
	char path[SYSFS_PATH_MAX];
	struct dirent **entries;
	int len, result = 0;

	sysfs_path(path, ROOT "%s/mon_data", group);
	len = sysfs_list(path, &entries);
	for (int i = 0; !result && i < len; i++)
		result = keep_domain(group, entries[i]->d_name, counters);
	sysfs_free(entries, len);
	if (!result)
		sysfs_path(path, "%s/mon_groups", group);
	return result ? result : keep_groups(path, counters);
}

/* The groups below a directory; those that are no groups have no mon_data. */
static int keep_groups(const char *directory, struct counters *counters)
{
	char path[SYSFS_PATH_MAX];
	struct dirent **entries;
	int len, result = 0;

	sysfs_path(path, ROOT "%s", directory);
	len = sysfs_list(path, &entries);
	for (int i = 0; !result && i < len; i++) {
		sysfs_path(path, "%s/%s", directory, entries[i]->d_name);
		result = keep_group(path, counters);
	}
	sysfs_free(entries, len);
	return result;
}

int resctrl_read(const void *unused, struct counters *counters)
{
	int result = keep_group("", counters);

	(void)unused;
	if (!result)
		result = keep_groups("", counters);
	if (!result && !json_object_size(counters->object))
		result = fail_hint(fail_because(ENOENT, ROOT, "find", "no monitoring data"),
				   "mount -t resctrl resctrl /sys/fs/resctrl");
	return result;
}

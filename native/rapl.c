// SPDX-License-Identifier: GPL-2.0-or-later
/* The energy that packages, cores and memory took: running average power limits, by powercap. */
#include <errno.h>

#include "error.h"
#include "host.h"
#include "sysfs.h"

#define ZONES "/sys/class/powercap"

/* The range is where the energy starts again from zero: of an old package within a minute. */
static const char *const files[] = {"energy_uj", "max_energy_range_uj"};

static int keep_zone(const char *zone, struct counters *counters)
{
	char path[SYSFS_PATH_MAX], name[64] = "";
	uint64_t value;
	int result = 0;

	sysfs_path(path, ZONES "/%s/name", zone);
	/* The control types are entries as well, without a name. */
	if (sysfs_read_line(path, name, sizeof(name)))
		return 0;
	for (size_t i = 0; !result && i < sizeof(files) / sizeof(files[0]); i++) {
		sysfs_path(path, ZONES "/%s/%s", zone, files[i]);
		if (!sysfs_read_number(path, &value))
			result = counters_set(counters, value, "%s.%s.%s", zone, name, files[i]);
	}
	return result;
}

int rapl_read(const void *unused, struct counters *counters)
{
	struct dirent **entries;
	int len = sysfs_list(ZONES, &entries);
	int result = 0;

	(void)unused;
	if (len < 0)
		return fail(-len, ZONES, "open");
	for (int i = 0; !result && i < len; i++)
		result = keep_zone(entries[i]->d_name, counters);
	sysfs_free(entries, len);
	if (!result && !json_object_size(counters->object))
		result = fail_because(ENOENT, ZONES, "find", "no zone tells its energy");
	return result;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* How a port is set, as numbers: what differs from one edge to the other was changed meanwhile. */
#include <errno.h>
#include <unistd.h>

#include "error.h"
#include "ethtool.h"
#include "port_counters.h"
#include "probe.h"
#include "sysfs.h"

/* Of the objects that the probe makes, those that are settings; the others never change. */
static const char *const probed[] = {"rings", "channels", "features"};
static const char *const sysfs_names[] = {"napi_defer_hard_irqs", "gro_flush_timeout", "threaded"};

static int keep_object(const char *name, json_t *object, struct counters *counters)
{
	const char *key;
	json_t *value;
	int result = 0;

	json_object_foreach(object, key, value)
		if (!result)
			result = counters_set(counters,
					      json_is_boolean(value) ? json_boolean_value(value)
								     : json_integer_value(value),
					      "%s.%s", name, key);
	return result;
}

static int keep_probed(const struct link *link, struct counters *counters)
{
	json_t *object = json_object(), *absent = json_array();
	int result = object && absent ? 0 : fail(ENOMEM, link->ifname, "read settings");

	if (!result)
		probe_port(link, object, absent);
	for (size_t i = 0; !result && i < sizeof(probed) / sizeof(probed[0]); i++)
		result = keep_object(probed[i], json_object_get(object, probed[i]), counters);
	json_decref(object);
	json_decref(absent);
	return result;
}

static int keep_pause(const char *ifname, struct counters *counters)
{
	struct ethtool_pauseparam pause = {.cmd = ETHTOOL_GPAUSEPARAM};
	int result;

	if (ethtool_ioctl(ifname, &pause))
		return 0;
	result = counters_set(counters, pause.rx_pause, "pause.rx");
	return result ? result : counters_set(counters, pause.tx_pause, "pause.tx");
}

static int keep_coalesce(const char *ifname, struct counters *counters)
{
	struct ethtool_coalesce coalesce = {.cmd = ETHTOOL_GCOALESCE};
	int result = 0;

	if (ethtool_ioctl(ifname, &coalesce))
		return 0;
	const struct {
		const char *name;
		__u32 value;
	} settings[] = {
		{"rx_usecs", coalesce.rx_coalesce_usecs},
		{"rx_frames", coalesce.rx_max_coalesced_frames},
		{"tx_usecs", coalesce.tx_coalesce_usecs},
		{"tx_frames", coalesce.tx_max_coalesced_frames},
		{"adaptive_rx", coalesce.use_adaptive_rx_coalesce},
		{"adaptive_tx", coalesce.use_adaptive_tx_coalesce},
	};

	for (size_t i = 0; !result && i < sizeof(settings) / sizeof(settings[0]); i++)
		result = counters_set(counters, settings[i].value, "coalesce.%s", settings[i].name);
	return result;
}

static int keep_sysfs(const char *ifname, struct counters *counters)
{
	int fd = sysfs_open_port(ifname), result = 0;
	char path[SYSFS_PATH_MAX];
	uint64_t value;

	if (fd < 0)
		return counters_leave_out(counters, failure.reason, "%s", sysfs_names[0]);
	for (size_t i = 0; !result && i < sizeof(sysfs_names) / sizeof(sysfs_names[0]); i++) {
		sysfs_path(path, "/proc/self/fd/%d/%s", fd, sysfs_names[i]);
		if (!sysfs_read_number(path, &value))
			result = counters_set(counters, value, "%s", sysfs_names[i]);
	}
	close(fd);
	return result;
}

int settings_read(const void *context, struct counters *counters)
{
	const struct link *link = context;
	struct link now;
	int result = link_read(link->ifname, &now);

	if (!result)
		result = counters_set(counters, now.mtu, "mtu");
	if (!result)
		result = keep_probed(&now, counters);
	if (!result)
		result = keep_pause(link->ifname, counters);
	if (!result)
		result = keep_coalesce(link->ifname, counters);
	return result ? result : keep_sysfs(link->ifname, counters);
}

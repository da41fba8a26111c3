// SPDX-License-Identifier: GPL-2.0-or-later
/* What ethtool and sysfs say about a port. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ethtool.h"
#include "probe.h"

static void note_absent(json_t *absent, const char *source, int err)
{
	json_array_append_new(absent,
			      json_pack("{s:s, s:s}", "source", source, "reason", strerror(err)));
}

/* The node comes from the bus, because /sys/class/net may show another network namespace. */
static int read_numa_node(const char *bus_info)
{
	char path[96];
	int node = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", bus_info);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fscanf(file, "%d", &node) != 1)
		node = -1;
	fclose(file);
	return node;
}

static void add_driver(const char *ifname, json_t *object, json_t *absent)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	int err = -ethtool_ioctl(ifname, &info);

	if (err)
		note_absent(absent, "driver", err);
	json_object_set_new(object, "driver", json_string(info.driver));
	json_object_set_new(object, "driver_version", json_string(info.version));
	json_object_set_new(object, "bus_info", json_string(info.bus_info));
	json_object_set_new(object, "firmware", json_string(info.fw_version));
	json_object_set_new(object, "numa_node", json_integer(read_numa_node(info.bus_info)));
}

/* What a port without a bus says of its speed is invention: frames go as fast as they are copied.
 */
static void add_speed(const char *ifname, json_t *object, json_t *absent)
{
	const char *bus_info = json_string_value(json_object_get(object, "bus_info"));
	struct ethtool_cmd command = {.cmd = ETHTOOL_GSET};
	int err = bus_info[0] ? -ethtool_ioctl(ifname, &command) : EOPNOTSUPP;
	__u32 speed_mbps = ethtool_cmd_speed(&command);

	if (!err && (!speed_mbps || speed_mbps == (__u32)SPEED_UNKNOWN))
		err = ENODATA;
	if (err)
		note_absent(absent, "speed_mbps", err);
	else
		json_object_set_new(object, "speed_mbps", json_integer(speed_mbps));
}

static void add_channels(const char *ifname, json_t *object, json_t *absent)
{
	struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
	int err = -ethtool_ioctl(ifname, &channels);

	if (err) {
		note_absent(absent, "channels", err);
		return;
	}
	json_object_set_new(
		object, "channels",
		json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "rx", (int)channels.rx_count,
			  "tx", (int)channels.tx_count, "combined", (int)channels.combined_count,
			  "other", (int)channels.other_count, "max_rx", (int)channels.max_rx,
			  "max_tx", (int)channels.max_tx, "max_combined",
			  (int)channels.max_combined, "max_other", (int)channels.max_other));
}

static void add_rings(const char *ifname, json_t *object, json_t *absent)
{
	struct ethtool_ringparam rings = {.cmd = ETHTOOL_GRINGPARAM};
	int err = -ethtool_ioctl(ifname, &rings);

	if (err) {
		note_absent(absent, "rings", err);
		return;
	}
	json_object_set_new(object, "rings",
			    json_pack("{s:i, s:i, s:i, s:i}", "rx", (int)rings.rx_pending, "tx",
				      (int)rings.tx_pending, "max_rx", (int)rings.rx_max_pending,
				      "max_tx", (int)rings.tx_max_pending));
}

static json_t *describe_features(const struct ethtool_gstrings *names,
				 const struct ethtool_gfeatures *features)
{
	json_t *object = json_object();
	char name[ETH_GSTRING_LEN + 1];

	for (__u32 i = 0; i < names->len; i++) {
		snprintf(name, sizeof(name), "%.*s", ETH_GSTRING_LEN,
			 (const char *)names->data + (size_t)i * ETH_GSTRING_LEN);
		if (name[0])
			json_object_set_new(
				object, name,
				json_boolean(features->features[i / 32].active >> (i % 32) & 1));
	}
	return object;
}

static void add_features(const char *ifname, json_t *object, json_t *absent)
{
	struct ethtool_gstrings *names = ethtool_strings(ifname, ETH_SS_FEATURES);
	struct ethtool_gfeatures *features;
	__u32 blocks;
	int err;

	if (!names) {
		note_absent(absent, "features", errno);
		return;
	}
	blocks = (names->len + 31) / 32;
	features = calloc(1, sizeof(*features) + blocks * sizeof(features->features[0]));
	if (!features) {
		note_absent(absent, "features", ENOMEM);
		goto free_names;
	}
	features->cmd = ETHTOOL_GFEATURES;
	features->size = blocks;
	err = -ethtool_ioctl(ifname, features);
	if (err)
		note_absent(absent, "features", err);
	else
		json_object_set_new(object, "features", describe_features(names, features));
	free(features);
free_names:
	free(names);
}

void probe_port(const struct link *link, json_t *object, json_t *absent)
{
	add_driver(link->ifname, object, absent);
	add_speed(link->ifname, object, absent);
	add_channels(link->ifname, object, absent);
	add_rings(link->ifname, object, absent);
	add_features(link->ifname, object, absent);
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>

#include "ethtool.h"
#include "port_counters.h"
#include "sysfs.h"

/* The device comes from the bus, as /sys/class/net may show another network namespace. */
static void add_msi_irqs(const char *bus_info, json_t *irqs)
{
	char path[SYSFS_PATH_MAX];
	struct dirent **entries;
	int len;

	sysfs_path(path, "/sys/bus/pci/devices/%s/msi_irqs", bus_info);
	len = sysfs_list(path, &entries);
	for (int i = 0; i < len; i++)
		json_array_append_new(irqs, json_integer(atoi(entries[i]->d_name)));
	sysfs_free(entries, len);
}

static void add_pin_irq(const char *bus_info, json_t *irqs)
{
	char path[SYSFS_PATH_MAX];
	uint64_t irq;

	sysfs_path(path, "/sys/bus/pci/devices/%s/irq", bus_info);
	if (!sysfs_read_number(path, &irq) && irq)
		json_array_append_new(irqs, json_integer(irq));
}

json_t *port_irqs(const struct link *link)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	json_t *irqs = json_array();

	if (ethtool_ioctl(link->ifname, &info) || !info.bus_info[0])
		return irqs;
	add_msi_irqs(info.bus_info, irqs);
	if (!json_array_size(irqs))
		add_pin_irq(info.bus_info, irqs);
	return irqs;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "probe.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "caches.h"
#include "error.h"
#include "load.h"
#include "napi_settings.h"
#include "out.h"
#include "port.h"

static json_t *describe_kernel(void)
{
	struct utsname name;

	uname(&name);
	return json_pack("{s:s, s:s, s:s}", "release", name.release, "version", name.version,
			 "machine", name.machine);
}

/* The CPUs that this process may use. */
static json_t *describe_cpus(void)
{
	json_t *list = json_array();
	cpu_set_t set;

	CPU_ZERO(&set);
	sched_getaffinity(0, sizeof(set), &set);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			json_array_append_new(list, json_integer(cpu));
	return list;
}

static json_t *describe_link(const struct link *link)
{
	char mac[18];

	snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", link->mac[0], link->mac[1],
		 link->mac[2], link->mac[3], link->mac[4], link->mac[5]);
	return json_pack("{s:s, s:i, s:s, s:i, s:b, s:i, s:i}", "ifname", link->ifname, "ifindex",
			 link->ifindex, "mac", mac, "mtu", (int)link->mtu, "carrier", link->carrier,
			 "rx_queues", (int)port_rx_queues(link), "tx_queues",
			 (int)port_tx_queues(link));
}

int probe_run(const char *ifname)
{
	json_t *absent = json_array();
	struct link link;
	json_t *object;
	int result = link_read(ifname, &link);

	if (!result)
		result = napi_settings_mend(ifname);

	if (result) {
		json_decref(absent);
		return result;
	}
	load_raise_memlock();
	object = describe_link(&link);
	probe_port(&link, object, absent);
	json_object_set_new(object, "absent", absent);
	json_object_set_new(object, "xdp", probe_xdp(&link));
	json_object_set_new(object, "kernel", describe_kernel());
	json_object_set_new(object, "cpus", describe_cpus());
	json_object_set_new(object, "caches", describe_caches());
	json_object_set_new(object, "system", probe_system());
	json_object_set_new(object, "can", probe_can(&link));
	return out_line(object);
}

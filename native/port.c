// SPDX-License-Identifier: GPL-2.0-or-later
#include "port.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "command.h"
#include "error.h"
#include "ethtool.h"
#include "spec.h"

/* Less than a controller waits for an answer; links of 100 Gbit/s take some seconds. */
#define CARRIER_BUDGET_NS (12 * NS_PER_S)
#define CARRIER_STEP_NS (10 * NS_PER_MS)

#define CPUS_POSSIBLE "/sys/devices/system/cpu/possible"

unsigned int port_rx_queues(const struct link *link)
{
	struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
	unsigned int count = 0;

	if (!ethtool_ioctl(link->ifname, &channels))
		count = channels.rx_count + channels.combined_count;
	return count ? count : link->rx_queues;
}

unsigned int port_tx_queues(const struct link *link)
{
	struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
	unsigned int count = 0;

	if (!ethtool_ioctl(link->ifname, &channels))
		count = channels.tx_count + channels.combined_count;
	return count ? count : link->tx_queues;
}

/*
 * A record is found by the number of its CPU, and numbers may have gaps: how many there are is no
 * help. Only where /sys is not mounted, it has to do.
 */
int port_cpu_numbers(unsigned int *cpus)
{
	FILE *file = fopen(CPUS_POSSIBLE, "re");
	char list[4096] = "";
	char *end;

	*cpus = 0;
	if (!file && errno == ENOENT)
		*cpus = sysconf(_SC_NPROCESSORS_CONF);
	if (!file)
		return *cpus ? 0 : fail(errno, CPUS_POSSIBLE, "open");
	/* Like 0-3,8-11, in order: the last is the highest. */
	if (fgets(list, sizeof(list), file))
		for (char *at = list; isdigit((unsigned char)*at); at = *end ? end + 1 : end)
			*cpus = strtoul(at, &end, 10) + 1;
	fclose(file);
	return *cpus ? 0 : fail_because(0, CPUS_POSSIBLE, "read", "no list of CPUs");
}

static int check_size(const struct link *link, unsigned int cpus)
{
	unsigned int rxqs = port_rx_queues(link);

	if (rxqs > MAX_QUEUES)
		return fail_hint(fail_because(0, link->ifname, "check",
					      "%u receive queues; the programs count %d", rxqs,
					      MAX_QUEUES),
				 "ethtool -L %s combined %d", link->ifname, MAX_QUEUES);
	if (cpus > MAX_CPUS)
		return fail_because(0, link->ifname, "check",
				    "CPUs up to number %u; the programs count on 0 to %d", cpus - 1,
				    MAX_CPUS - 1);
	return 0;
}

int port_create(struct port *port, const char *ifname, const struct program *program,
		const struct load_options *options)
{
	struct load_options chosen = *options;
	unsigned int cpus;
	int result;

	memset(port, 0, sizeof(*port));
	port->program.fd = -1;
	port->attachment.link_fd = -1;
	result = link_read(ifname, &port->link);
	if (!result)
		result = port_cpu_numbers(&cpus);
	if (!result)
		result = check_size(&port->link, cpus);
	chosen.one_queue = !result && port_rx_queues(&port->link) == 1;
	if (!result && program)
		result = loaded_create(&port->program, program, &chosen);
	if (result)
		return result;
	if (!port->program.records)
		return 0;
	result = records_create(&port->records, &port->program, cpus,
				port->link.rx_queues < MAX_QUEUES ? port->link.rx_queues
								  : MAX_QUEUES);
	if (!result && port->program.remote)
		result = records_create_remote(&port->remote, &port->program, cpus);
	if (result)
		port_destroy(port);
	return result;
}

void port_destroy(struct port *port)
{
	attachment_destroy(&port->attachment);
	records_destroy(&port->records);
	records_destroy(&port->remote);
	loaded_destroy(&port->program);
	work_destroy(port->work);
	port->work = NULL;
}

int port_attach(struct port *port, int attach_mode)
{
	return attachment_create(&port->attachment, port->link.ifname, port->link.ifindex,
				 port->program.fd, attach_mode);
}

int port_verify_queues(const struct port *port)
{
	unsigned int rxqs = port_rx_queues(&port->link);

	if (!port->program.records || port->records.per_cpu != RECORDS_ONE_QUEUE || rxqs == 1)
		return 0;
	return fail_because(0, port->link.ifname, "verify",
			    "%u receive queues, and there was one when the program was loaded",
			    rxqs);
}

int port_wait_for_carrier(const struct port *port)
{
	int64_t deadline_ns = now_ns() + CARRIER_BUDGET_NS;
	struct link now;
	int result = link_read(port->link.ifname, &now);

	while (!result && !now.carrier) {
		if (now_ns() > deadline_ns)
			return fail_hint(fail_because(ENETDOWN, port->link.ifname, "carrier",
						      "none for %lld s",
						      CARRIER_BUDGET_NS / NS_PER_S),
					 "both ends must be up, and the cable in");
		result = command_pause(CARRIER_STEP_NS);
		if (!result)
			result = link_read(port->link.ifname, &now);
	}
	return result;
}

int port_add_sources(struct port *port, struct sampler *sampler)
{
	bool bare = !port->program.records;
	const char *reason =
		port->program.object ? "a bare program counts nothing" : "the case has no program";

	if (!bare)
		sampler_add(sampler, (struct source){"xdp_prog", records_take, records_read,
						     &port->records, .cheap = true});
	if (port->program.remote)
		sampler_add(sampler,
			    (struct source){"xdp_remote", records_take, records_read_remote,
					    &port->remote, .cheap = true});
	/* Without records nothing else counts the packets while they come. */
	sampler_add(sampler, (struct source){"netdev", netdev_take, netdev_read, &port->link,
					     .cheap = bare});
	sampler_add(sampler,
		    (struct source){"ethtool", .read = ethtool_read, .context = port->link.ifname});
	sampler_add(sampler, (struct source){"softnet", .read = softnet_read});
	sampler_add(sampler, (struct source){"proc_stat", .read = proc_stat_read});
	return bare ? sampler_add_absent(sampler, "xdp_prog", reason) : 0;
}

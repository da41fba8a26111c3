// SPDX-License-Identifier: GPL-2.0-or-later
#include "observers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "clock_rates.h"
#include "error.h"
#include "host.h"
#include "pmu.h"
#include "port_counters.h"
#include "xdp_errors.h"

/* NULL after fail(). */
static json_t *read_settings(const struct link *link)
{
	struct counters counters = {json_object(), "settings", json_array()};
	int result = counters.object && counters.absent ? settings_read(link, &counters)
							: fail(ENOMEM, "settings", "read");

	json_decref(counters.absent);
	if (!result)
		return counters.object;
	json_decref(counters.object);
	return NULL;
}

int observers_create(struct observers *observers, const struct spec *spec)
{
	struct link link;
	int result = link_read(spec->ifname, &link);

	memset(observers, 0, sizeof(*observers));
	if (result)
		return result;
	observers->settings_found = read_settings(&link);
	return observers->settings_found ? 0 : fail_result();
}

void observers_destroy(struct observers *observers)
{
	xdp_errors_destroy(observers->xdp_errors);
	pmu_destroy(observers->pmu);
	clock_rates_destroy(observers->clock_rates);
	json_decref(observers->settings_found);
}

static void add_port(const struct port *port, struct sampler *sampler)
{
	void *link = (void *)&port->link;

	sampler_add(sampler, (struct source){"settings", .read = settings_read, .context = link});
	sampler_add(sampler,
		    (struct source){"netdev_queues", .read = netdev_queues_read, .context = link});
	sampler_add(sampler, (struct source){"page_pool", .read = page_pool_read, .context = link});
	sampler_add(sampler, (struct source){"page_pool_stats", .read = page_pool_stats_read,
					     .context = link});
}

static int add_clock_rates(struct observers *observers, struct sampler *sampler)
{
	char reason[600];

	if (clock_rates_create(&observers->clock_rates)) {
		snprintf(reason, sizeof(reason), "%s: %s: %s", failure.object, failure.step,
			 failure.reason);
		return sampler_add_absent(sampler, "msr", reason);
	}
	sampler_add(sampler, (struct source){"msr", .read = clock_rates_read,
					     .context = observers->clock_rates});
	return 0;
}

/* Packets are counted in this pass, and their rate is not asked for: the counters may be sampled.
 */
static int add_pmu(struct observers *observers, int group, struct sampler *sampler)
{
	observers->pmu = pmu_create(group);
	if (!observers->pmu)
		return fail_result();
	sampler_add(sampler,
		    (struct source){"pmu", pmu_take, pmu_read, observers->pmu, .cheap = true});
	return 0;
}

static int add_xdp_errors(struct observers *observers, const struct port *port,
			  struct sampler *sampler)
{
	observers->xdp_errors = xdp_errors_create(port, sampler);
	return observers->xdp_errors ? 0 : fail_result();
}

int observers_add_sources(struct observers *observers, const struct spec *spec,
			  const struct port *port, struct sampler *sampler)
{
	int result;

	add_port(port, sampler);
	sampler_add(sampler, (struct source){"threads", .read = threads_read});
	if (spec->role == ROLE_GENERATE)
		return 0;
	host_add_sources(sampler);
	result = add_clock_rates(observers, sampler);
	if (!result && spec->pass == PASS_PMU)
		result = add_pmu(observers, spec->pmu_group, sampler);
	if (!result && spec->pass == PASS_DIAGNOSTIC)
		result = add_xdp_errors(observers, port, sampler);
	return result;
}

/* The found values of those settings that are others now. */
static json_t *find_changed(const json_t *found, const json_t *now)
{
	json_t *changed = json_object();
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)found, key, value)
		if (!json_equal(value, json_object_get(now, key)))
			json_object_set(changed, key, value);
	return changed;
}

int observers_describe(const struct observers *observers, const struct port *port, json_t *ready)
{
	json_t *now = read_settings(&port->link);

	if (!now)
		return fail_result();
	json_object_set_new(ready, "settings_found", find_changed(observers->settings_found, now));
	json_decref(now);
	json_object_set_new(ready, "irqs", port_irqs(&port->link));
	if (observers->pmu)
		json_object_set_new(ready, "pmu", pmu_describe(observers->pmu));
	if (observers->xdp_errors)
		json_object_set_new(ready, "tracepoints",
				    xdp_errors_describe(observers->xdp_errors));
	return 0;
}

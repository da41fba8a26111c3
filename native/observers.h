/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_OBSERVERS_H
#define XDPREPRO_OBSERVERS_H

#include <jansson.h>

#include "port.h"
#include "sample.h"
#include "spec.h"

/*
 * What looks at a trial beside its own counters: the sources of the port and of the machine, and
 * those of a pass that costs too much to be part of a rate.
 */
struct observers {
	json_t *settings_found; /* of the port, before the trial changed any */
	struct clock_rates *clock_rates;
	struct pmu *pmu;
	struct xdp_errors *xdp_errors;
};

/* First of all, before the trial changes anything. */
int observers_create(struct observers *observers, const struct spec *spec);
void observers_destroy(struct observers *observers);

/* Once the port's program is loaded. */
int observers_add_sources(struct observers *observers, const struct spec *spec,
			  const struct port *port, struct sampler *sampler);

/* Add to the `ready` message what is counted, and the settings that the trial changed. */
int observers_describe(const struct observers *observers, const struct port *port, json_t *ready);

#endif

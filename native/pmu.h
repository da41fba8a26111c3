/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_PMU_H
#define XDPREPRO_PMU_H

#include <jansson.h>

#include "counters.h"

/* The events of one group on every CPU, counted together. */
struct pmu;

/* NULL after fail(), where this machine can count none of the group's events. */
struct pmu *pmu_create(int group);
void pmu_destroy(struct pmu *pmu);

/* The events of a group, by what perf_event_open(2) was given, and those that are absent. */
json_t *pmu_describe(const struct pmu *pmu);

int pmu_take(void *pmu);
int pmu_read(const void *pmu, struct counters *counters);

#endif

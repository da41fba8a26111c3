/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_CLOCK_RATES_H
#define XDPREPRO_CLOCK_RATES_H

#include "counters.h"

/* Counters of every CPU's clock, open for as long as they are to be compared. */
struct clock_rates;

int clock_rates_create(struct clock_rates **rates);
void clock_rates_destroy(struct clock_rates *rates);

int clock_rates_read(const void *rates, struct counters *counters);

#endif

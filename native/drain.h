/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_DRAIN_H
#define XDPREPRO_DRAIN_H

#include "sample.h"

/* Take samples of phase `drain` until the packets of the cheap sources stand still. */
int drain(struct sampler *sampler, int64_t interval_ns, int64_t *took_ns);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_TRIAL_H
#define XDPREPRO_TRIAL_H

#include <jansson.h>

#include "port.h"
#include "spec.h"

/* One trial: spec and commands from stdin, stream to stdout. */
int trial_run(void);

/* The roles; each is one file. */
int dut_run(const struct spec *spec);
int generate_run(const struct spec *spec);
int ring_run(const struct spec *spec);

/* Print the start edge, then that we are ready. Steals `extra`, what the role adds to the message.
 */
int trial_ready(const struct port *port, const struct sampler *sampler, json_t *extra);

/* Print the end edge, check that our program is still there, and print that we are done. */
int trial_done(const struct port *port, const struct sampler *sampler);

#endif

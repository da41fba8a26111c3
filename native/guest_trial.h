/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_GUEST_TRIAL_H
#define XDPREPRO_GUEST_TRIAL_H

#include "guest_job.h"

/* Ask the agent about both ports, and hand on what it says. */
int guest_probe(struct guest_job *job);

/*
 * One trial from `trial` to `trial_end` on the channel; that it failed is told there. A failure
 * here means that no other trial can go well.
 */
int guest_trial_run(const struct guest_job *job, struct guest_trial *trial);

#endif

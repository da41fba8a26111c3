/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_PACE_H
#define XDPREPRO_PACE_H

#include <stddef.h>
#include <stdint.h>

#include "../bpf/record.h"
#include "records.h"

/* How often a frame is due for one of so many threads; see PACE_SHIFT. */
uint64_t pace_step(uint64_t rate_pps, size_t threads);

/* How many frames are due by now, when `sent` were sent: at least one. */
uint64_t pace_due(struct pace *pace, uint64_t step, uint64_t sent);

/* The same at a time of CLOCK_MONOTONIC, for anyone to ask: none before the first was due. */
uint64_t pace_due_at(const struct pace *pace, uint64_t step, int64_t now);

/* A sender that keeps so many frames on their way; only its own thread writes it. */
struct closed_loop {
	const struct records *back; /* of the program that sees what returns */
	uint64_t outstanding;
	uint64_t returned;
	int64_t lost; /* no longer waited for; negative: more came than were sent */
	int64_t moved_ns;
	uint64_t timeouts; /* times that nothing returned for too long */
};

/* How many frames may have been sent by now, when `sent` were. */
uint64_t closed_loop_due(struct closed_loop *loop, uint64_t sent);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_WORKERS_H
#define XDPREPRO_WORKERS_H

/* What the programs with a work have besides those without. */

#include "count.h"
#include "work.h"

const volatile struct work_knobs knobs SEC(".rodata.work");

/* Apart from the records, whose section holds nothing else. */
struct worker workers[RECORD_CPUS] SEC(".data.workers");

static __always_inline struct worker *find_worker(void)
{
	return &workers[bpf_get_smp_processor_id() & (RECORD_CPUS - 1)];
}

#endif

// SPDX-License-Identifier: GPL-2.0-or-later
#include "spec_section.h"

const char *const ring_fill_names[] = {"empty", "half", "full", NULL};
const char *const ring_faster_names[] = {"none", "producer", "consumer", NULL};

static const char *const ring_keys[] = {"size",         "batch",        "fill", "faster",
					"producer_cpu", "consumer_cpu", NULL};

static int parse_cpus(const struct section *section, struct ring_spec *ring)
{
	int result = read_small(section, "producer_cpu", 0, MAX_CPUS - 1, &ring->producer_cpu);

	if (!result)
		result = read_small(section, "consumer_cpu", 0, MAX_CPUS - 1, &ring->consumer_cpu);
	/* Two threads that spin on one CPU would measure its scheduler. */
	if (!result && ring->producer_cpu == ring->consumer_cpu)
		result = bad_value(section, "consumer_cpu", "another CPU than ring.producer_cpu");
	return result;
}

int parse_ring(const struct section *top, struct spec *spec)
{
	struct ring_spec *ring = &spec->ring;
	struct section section;
	int result = read_section(top, "ring", "ring.", &section);

	if (!result)
		result = section_check_keys(&section, ring_keys);
	if (!result)
		result = read_power_of_two(&section, "size", 64, 1 << 20, &ring->size);
	if (!result)
		result = read_small(&section, "batch", 1, 64, &ring->batch);
	/* Levels are quarters of the ring, and a batch must fit between them. */
	if (!result && ring->batch > ring->size / 8)
		result = bad_value(&section, "batch", "at most an eighth of ring.size");
	if (!result)
		result = read_choice(&section, "fill", ring_fill_names, &ring->fill);
	if (!result)
		result = read_choice(&section, "faster", ring_faster_names, &ring->faster);
	return result ? result : parse_cpus(&section, ring);
}

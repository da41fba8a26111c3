/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_SAMPLE_H
#define XDPREPRO_SAMPLE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "counters.h"

#define SOURCES_MAX 32

/* The sources of a trial. The same list serves samples and edges. */
struct sampler {
	struct source sources[SOURCES_MAX];
	size_t sources_len;
	json_t *absent_always; /* sources that this trial cannot have, with the reason */
	int64_t samples;       /* taken so far */
};

int sampler_create(struct sampler *sampler);
void sampler_destroy(struct sampler *sampler);

void sampler_add(struct sampler *sampler, struct source source);
int sampler_add_absent(struct sampler *sampler, const char *name, const char *reason);

/* Read the cheap sources and print them as one sample. */
int sampler_sample(struct sampler *sampler, const char *phase);

/* Read the cheap sources, or every source that there is, into one new object; NULL after fail(). */
json_t *sampler_read(const struct sampler *sampler);
json_t *sampler_read_all(const struct sampler *sampler);

/* Read every source and print them as an edge. */
int sampler_edge(const struct sampler *sampler, const char *edge);

#endif

// SPDX-License-Identifier: GPL-2.0-or-later
#include "sample.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "error.h"
#include "out.h"

int sampler_create(struct sampler *sampler)
{
	memset(sampler, 0, sizeof(*sampler));
	sampler->absent_always = json_array();
	return sampler->absent_always ? 0 : fail(ENOMEM, "sampler", "create");
}

void sampler_destroy(struct sampler *sampler)
{
	json_decref(sampler->absent_always);
	sampler->absent_always = NULL;
}

void sampler_add(struct sampler *sampler, struct source source)
{
	sampler->sources[sampler->sources_len++] = source;
}

static json_t *describe_absent(const char *name, const char *reason)
{
	return json_pack("{s:s, s:s}", "source", name, "reason", reason);
}

int sampler_add_absent(struct sampler *sampler, const char *name, const char *reason)
{
	if (json_array_append_new(sampler->absent_always, describe_absent(name, reason)))
		return fail(ENOMEM, "sampler", "create");
	return 0;
}

static int take_cheap(const struct sampler *sampler)
{
	int result = 0;

	for (size_t i = 0; !result && i < sampler->sources_len; i++)
		if (sampler->sources[i].cheap)
			result = sampler->sources[i].take(sampler->sources[i].context);
	return result;
}

static json_t *read_cheap(const struct sampler *sampler)
{
	struct counters counters = {.object = json_object()};
	int result = counters.object ? 0 : fail(ENOMEM, "sampler", "read");

	for (size_t i = 0; !result && i < sampler->sources_len; i++) {
		const struct source *source = &sampler->sources[i];

		counters.source = source->name;
		if (source->cheap)
			result = source->read(source->context, &counters);
	}
	if (!result)
		return counters.object;
	json_decref(counters.object);
	return NULL;
}

json_t *sampler_read(const struct sampler *sampler)
{
	return take_cheap(sampler) ? NULL : read_cheap(sampler);
}

json_t *sampler_read_all(const struct sampler *sampler)
{
	struct counters counters = {.object = sampler_read(sampler)};

	for (size_t i = 0; counters.object && i < sampler->sources_len; i++) {
		const struct source *source = &sampler->sources[i];

		counters.source = source->name;
		if (!source->cheap && !(source->take && source->take(source->context)))
			source->read(source->context, &counters); /* may be absent */
	}
	return counters.object;
}

int sampler_sample(struct sampler *sampler, const char *phase)
{
	int64_t t0_ns = stamp_ns();
	int result = take_cheap(sampler);
	int64_t t1_ns = stamp_ns();
	json_t *counters;

	if (result)
		return result;
	counters = read_cheap(sampler);
	if (!counters)
		return fail_result();
	return out_line(json_pack("{s:I, s:s, s:I, s:I, s:o}", "sample",
				  (json_int_t)sampler->samples++, "phase", phase, "t0_ns",
				  (json_int_t)t0_ns, "t1_ns", (json_int_t)t1_ns, "counters",
				  counters));
}

static int edge_source(const struct source *source, json_t *present, json_t *absent)
{
	struct counters counters = {json_object(), source->name, absent};
	int64_t t0_ns = stamp_ns();
	int result = source->take ? source->take(source->context)
				  : source->read(source->context, &counters);
	int64_t t1_ns = stamp_ns();
	char reason[600];

	if (!result && source->take)
		result = source->read(source->context, &counters);
	if (!result)
		return json_array_append_new(
			present, json_pack("{s:s, s:I, s:I, s:o}", "source", source->name, "t0_ns",
					   (json_int_t)t0_ns, "t1_ns", (json_int_t)t1_ns,
					   "counters", counters.object));
	json_decref(counters.object);
	snprintf(reason, sizeof(reason), "%s: %s: %s", failure.object, failure.step,
		 failure.reason);
	return json_array_append_new(absent, describe_absent(source->name, reason));
}

int sampler_edge(const struct sampler *sampler, const char *edge)
{
	json_t *present = json_array();
	json_t *absent = json_copy(sampler->absent_always);
	int err = 0;

	for (size_t i = 0; !err && i < sampler->sources_len; i++)
		err = edge_source(&sampler->sources[i], present, absent);
	if (err) {
		json_decref(present);
		json_decref(absent);
		return fail(ENOMEM, "sampler", "edge");
	}
	return out_line(
		json_pack("{s:s, s:o, s:o}", "edge", edge, "sources", present, "absent", absent));
}

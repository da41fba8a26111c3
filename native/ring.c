// SPDX-License-Identifier: GPL-2.0-or-later
/* The ring benchmark: two threads and a ring in user space, without a port. */
#include <errno.h>
#include <stdlib.h>

#include "clock.h"
#include "command.h"
#include "error.h"
#include "measure.h"
#include "out.h"
#include "ring_threads.h"
#include "trial.h"

struct taken {
	uint64_t produced;
	uint64_t consumed;
	uint64_t errors;
	uint64_t producer_idle;
	uint64_t consumer_idle;
	uint64_t producer_run_ns;
	uint64_t consumer_run_ns;
	uint64_t occupancy[EIGHTHS];
};

struct run {
	struct ring_threads threads;
	struct taken taken;
	struct sampler sampler;
	const struct spec *spec;
};

static int take(void *context)
{
	struct run *run = context;
	const struct ring_end *producer = &run->threads.bench.producer;
	const struct ring_end *consumer = &run->threads.bench.consumer;

	/* In this order nothing seems to be consumed that was not produced. */
	run->taken.consumed = ring_counted(&consumer->entries);
	run->taken.produced = ring_counted(&producer->entries);
	run->taken.errors = ring_counted(&consumer->errors);
	run->taken.producer_idle = ring_counted(&producer->idle);
	run->taken.consumer_idle = ring_counted(&consumer->idle);
	run->taken.producer_run_ns = ring_run_ns(&run->threads.producer);
	run->taken.consumer_run_ns = ring_run_ns(&run->threads.consumer);
	for (int i = 0; i < EIGHTHS; i++)
		run->taken.occupancy[i] = ring_counted(&consumer->occupancy[i]);
	return 0;
}

static int read_taken(const void *context, struct counters *counters)
{
	const struct taken *taken = &((const struct run *)context)->taken;
	const struct {
		const char *name;
		uint64_t value;
	} values[] = {
		{"produced", taken->produced},
		{"consumed", taken->consumed},
		{"errors", taken->errors},
		{"producer_idle", taken->producer_idle},
		{"consumer_idle", taken->consumer_idle},
		{"producer_run_ns", taken->producer_run_ns},
		{"consumer_run_ns", taken->consumer_run_ns},
	};
	int result = 0;

	for (size_t i = 0; !result && i < sizeof(values) / sizeof(values[0]); i++)
		result = counters_set(counters, values[i].value, "%s", values[i].name);
	for (int i = 0; !result && i < EIGHTHS; i++)
		result = counters_set(counters, taken->occupancy[i], "occupancy_%d", i);
	return result;
}

static json_t *describe(const struct run *run)
{
	const struct ring_threads *threads = &run->threads;
	const struct ring_end *producer = &threads->bench.producer;
	const struct ring_end *consumer = &threads->bench.consumer;
	bool slower = producer->delay || consumer->delay;

	return json_pack("{s:i, s:I, s:I, s:I, s:I, s:i, s:i, s:i, s:I, s:I}", "entry_size",
			 (int)sizeof(struct ring_entry), "size",
			 (json_int_t)threads->bench.ring.size, "batch", (json_int_t)producer->batch,
			 "producer_level", (json_int_t)producer->level, "consumer_level",
			 (json_int_t)consumer->level, "producer_cpu", threads->producer.cpu,
			 "consumer_cpu", threads->consumer.cpu, "delay_ns", slower ? DELAY_NS : 0,
			 "producer_delay", (json_int_t)producer->delay, "consumer_delay",
			 (json_int_t)consumer->delay);
}

static int ready(struct run *run)
{
	int result = sampler_edge(&run->sampler, "start");

	if (result)
		return result;
	return out_line(json_pack("{s:b, s:I, s:I, s:o}", "ready", 1, "t_mono_raw_ns",
				  (json_int_t)stamp_ns(), "t_realtime_ns",
				  (json_int_t)clock_ns(CLOCK_REALTIME), "ring", describe(run)));
}

static int stop(struct run *run)
{
	int64_t start_ns = now_ns();
	int result;

	ring_stop(&run->threads);
	result = sampler_sample(&run->sampler, "drain");
	if (!result)
		result = out_line(json_pack("{s:b, s:I}", "drained", 1, "drain_ns",
					    (json_int_t)(now_ns() - start_ns)));
	return result;
}

static int done(struct run *run)
{
	uint64_t errors, entries;
	int result;

	ring_stop(&run->threads);
	errors = run->threads.bench.consumer.errors;
	entries = run->threads.bench.producer.entries;
	result = sampler_edge(&run->sampler, "end");
	if (!result && errors)
		result = fail_because(0, run->spec->test_case->name, "verify",
				      "%llu of %llu entries were not those that were due",
				      (unsigned long long)errors, (unsigned long long)entries);
	return result ? result : out_line(json_pack("{s:b}", "done", 1));
}

static int wait(void *unused, int64_t at_ns, enum command *next)
{
	(void)unused;
	return command_wait(at_ns, -1, next);
}

static int obey(struct run *run)
{
	bool gone = false;
	enum command next;
	int result = command_wait(NO_DEADLINE, -1, &next);

	while (!result && next != COMMAND_FINISH) {
		if (next == COMMAND_GO && !gone) {
			gone = true;
			ring_go(&run->threads);
			result = measure(&run->sampler, run->spec, wait, NULL, &next);
			if (next != COMMAND_TIMEOUT)
				continue; /* a command came before the end */
		} else if (next == COMMAND_STOP) {
			result = stop(run);
		} else {
			result = fail_usage("stdin", "command", "go, but it has gone already");
		}
		if (!result)
			result = command_wait(NO_DEADLINE, -1, &next);
	}
	return result ? result : done(run);
}

static int run_threads(struct run *run)
{
	const struct spec *spec = run->spec;
	int result = ring_start(&run->threads, spec->test_case - cases_ring, &spec->ring);

	if (result)
		return result;
	sampler_add(&run->sampler, (struct source){"ring", take, read_taken, run, .cheap = true});
	sampler_add(&run->sampler, (struct source){"proc_stat", .read = proc_stat_read});
	result = ready(run);
	if (!result)
		result = obey(run);
	ring_destroy(&run->threads);
	return result;
}

int ring_run(const struct spec *spec)
{
	struct run *run = aligned_alloc(_Alignof(struct run), sizeof(*run));
	int result;

	if (!run)
		return fail(ENOMEM, "ring", "create");
	run->spec = spec;
	result = sampler_create(&run->sampler);
	if (!result) {
		result = run_threads(run);
		sampler_destroy(&run->sampler);
	}
	free(run);
	return result;
}

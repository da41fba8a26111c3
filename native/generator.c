// SPDX-License-Identifier: GPL-2.0-or-later
#include "generator.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "port.h"
#include "thread.h"
#include "window.h"

#define JOIN_STEP_NS (10 * NS_PER_MS)

static const struct generator_ops *const kinds[] = {
	[GENERATOR_LIVE_FRAMES] = &generator_live_ops,
	[GENERATOR_AF_PACKET] = &generator_packet_ops,
};

static void ignore_signal(int signal)
{
	(void)signal;
}

static void *run_thread(void *argument)
{
	struct generator_thread *thread = argument;
	struct generator *generator = thread->generator;
	uint64_t one = 1;
	ssize_t n;

	while (sem_wait(&generator->go))
		continue; /* interrupted */
	if (generator->spec->window != NO_WINDOW)
		window_open(generator->spec->window);
	if (!generator_stopping(generator) && generator->ops->send(thread))
		thread->failed = failure;
	__atomic_store_n(&thread->ended_ns, now_ns(), __ATOMIC_RELEASE);
	if (!__atomic_sub_fetch(&generator->running, 1, __ATOMIC_ACQ_REL)) {
		n = write(generator->event_fd, &one, sizeof(one));
		(void)n;
	}
	return NULL;
}

static int start_threads(struct generator *generator)
{
	int result;

	for (size_t i = 0; i < generator->threads_len; i++) {
		struct generator_thread *thread = &generator->threads[i];

		result = thread_start(&thread->thread, "cpus", thread->cpu, run_thread, thread);
		if (result)
			return result;
		thread->started = true;
		generator->running++;
	}
	return 0;
}

static void set_shares(struct generator *generator)
{
	const struct generator_spec *spec = generator->spec;

	for (size_t i = 0; i < spec->cpus_len; i++) {
		struct generator_thread *thread = &generator->threads[i];

		thread->generator = generator;
		thread->cpu = spec->cpus[i];
		thread->share = spec->count / spec->cpus_len;
		thread->share += i < spec->count % spec->cpus_len;
		if (!spec->count)
			thread->share = UINT64_MAX;
		thread->loop.back = generator->back;
		thread->loop.outstanding = spec->closed_loop;
	}
}

int generator_create(struct generator *generator, const struct generator_spec *spec,
		     const struct port *port)
{
	struct sigaction interrupt = {.sa_handler = ignore_signal};
	int result;

	memset(generator, 0, sizeof(*generator));
	generator->spec = spec;
	generator->ops = kinds[spec->kind];
	generator->ifname = port->link.ifname;
	generator->ifindex = port->link.ifindex;
	generator->back = &port->records;
	if (spec->rate_pps)
		generator->step = pace_step(spec->rate_pps, spec->cpus_len);
	generator->threads_len = spec->cpus_len;
	generator->program.fd = -1;
	sigaction(SIGUSR1, &interrupt, NULL);
	sem_init(&generator->go, 0, 0);
	generator->event_fd = eventfd(0, EFD_CLOEXEC);
	if (generator->event_fd < 0)
		return fail(errno, generator->ifname, "eventfd");
	generator->threads = aligned_alloc(128, spec->cpus_len * sizeof(*generator->threads));
	if (!generator->threads) {
		result = fail(ENOMEM, generator->ifname, "make generator");
		goto close_event;
	}
	memset(generator->threads, 0, spec->cpus_len * sizeof(*generator->threads));
	set_shares(generator);
	result = generator->ops->create(generator);
	if (result)
		goto free_threads;
	result = start_threads(generator);
	if (!result)
		return 0;
	generator_destroy(generator);
	return result;
free_threads:
	free(generator->threads);
close_event:
	close(generator->event_fd);
	generator->event_fd = -1;
	return result;
}

/* A signal just before a system call is lost, so it is sent until the thread has ended. */
static void join_thread(pthread_t thread)
{
	struct timespec deadline;

	do {
		pthread_kill(thread, SIGUSR1);
		clock_gettime(CLOCK_REALTIME, &deadline);
		deadline.tv_nsec += JOIN_STEP_NS;
		if (deadline.tv_nsec >= NS_PER_S) {
			deadline.tv_nsec -= NS_PER_S;
			deadline.tv_sec++;
		}
	} while (pthread_timedjoin_np(thread, NULL, &deadline) == ETIMEDOUT);
}

static void join(struct generator *generator)
{
	generator->stopped_ns = now_ns();
	__atomic_store_n(&generator->stop, true, __ATOMIC_RELAXED);
	generator_go(generator);
	for (size_t i = 0; i < generator->threads_len; i++)
		if (generator->threads[i].started)
			join_thread(generator->threads[i].thread);
	generator->joined = true;
}

void generator_destroy(struct generator *generator)
{
	if (!generator->joined)
		join(generator);
	generator->ops->destroy(generator);
	free(generator->threads);
	close(generator->event_fd);
	sem_destroy(&generator->go);
}

void generator_go(struct generator *generator)
{
	for (size_t i = 0; i < generator->threads_len; i++)
		sem_post(&generator->go);
}

int generator_stop(struct generator *generator)
{
	if (!generator->joined)
		join(generator);
	for (size_t i = 0; i < generator->threads_len; i++)
		if (generator->threads[i].failed.reason[0]) {
			failure = generator->threads[i].failed;
			return fail_result();
		}
	return 0;
}

uint64_t generator_packets(const struct generator *generator)
{
	struct sent sent;
	uint64_t packets = 0;

	for (size_t i = 0; i < generator->threads_len; i++) {
		generator->ops->read_sent(&generator->threads[i], &sent);
		packets += sent.packets;
	}
	return packets;
}

json_t *generator_describe(const struct generator *generator)
{
	json_t *object = loaded_describe(&generator->program);
	json_t *cpus = json_array();

	for (size_t i = 0; i < generator->threads_len; i++)
		json_array_append_new(cpus, json_integer(generator->threads[i].cpu));
	json_object_set_new(object, "generator",
			    json_string(generator_names[generator->spec->kind]));
	json_object_set_new(object, "cpus", cpus);
	json_object_set_new(object, "batch", json_integer(generator->spec->batch));
	json_object_set_new(object, "rate_pps", json_integer(generator->spec->rate_pps));
	json_object_set_new(object, "closed_loop", json_integer(generator->spec->closed_loop));
	return object;
}

/* Until when frames were due: now, or when the thread was told to stop, or ended by itself. */
static int64_t find_due_ns(const struct generator_thread *thread)
{
	int64_t stopped_ns = thread->generator->stopped_ns;
	int64_t ended_ns = __atomic_load_n(&thread->ended_ns, __ATOMIC_ACQUIRE);
	int64_t due_ns = ended_ns ? ended_ns : now_ns();

	return stopped_ns && stopped_ns < due_ns ? stopped_ns : due_ns;
}

static void take_thread(struct generator_thread *thread, uint64_t step)
{
	thread->generator->ops->read_sent(thread, &thread->taken);
	if (thread->paced) {
		thread->taken.due = pace_due_at(thread->paced, step, find_due_ns(thread));
		thread->taken.late_ns = records_load(&thread->paced->late) >> PACE_SHIFT;
	}
	thread->taken.timeouts = __atomic_load_n(&thread->loop.timeouts, __ATOMIC_RELAXED);
}

int generator_take(void *context)
{
	struct generator *generator = context;

	for (size_t i = 0; i < generator->threads_len; i++)
		take_thread(&generator->threads[i], generator->step);
	return 0;
}

/* What a load without a pace, or without a loop, does not have. */
static int read_load(const struct generator *generator, const struct sent *taken, int cpu,
		     struct counters *counters)
{
	int result = 0;

	if (generator->step)
		result = counters_set(counters, taken->due, "cpu%d.due", cpu);
	if (!result && generator->step)
		result = counters_set(counters, taken->late_ns, "cpu%d.late_ns", cpu);
	if (!result && generator->spec->closed_loop)
		result = counters_set(counters, taken->timeouts, "cpu%d.timeouts", cpu);
	return result;
}

int generator_read(const void *context, struct counters *counters)
{
	const struct generator *generator = context;
	int result = 0;

	for (size_t i = 0; !result && i < generator->threads_len; i++) {
		const struct sent *taken = &generator->threads[i].taken;
		int cpu = generator->threads[i].cpu;

		result = counters_set(counters, taken->packets, "cpu%d.packets", cpu);
		if (!result)
			result = counters_set(counters, taken->bytes, "cpu%d.bytes", cpu);
		if (!result)
			result = counters_set(counters, taken->errors, "cpu%d.errors", cpu);
		if (!result)
			result = read_load(generator, taken, cpu, counters);
	}
	return result;
}

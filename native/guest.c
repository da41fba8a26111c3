// SPDX-License-Identifier: GPL-2.0-or-later
#include "guest.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "guest_channel.h"
#include "guest_job.h"
#include "guest_port.h"
#include "guest_report.h"
#include "guest_system.h"
#include "guest_trial.h"
#include "window.h"

#define JOB "/job.json"

bool guest_is_init(const char *program)
{
	size_t len = strlen(program);

	return getpid() == 1 && len >= 4 && !strcmp(program + len - 4, "init");
}

/* Modules of the channel come first in the list, so that a later one that fails can be told. */
static int open_channel(const struct guest_job *job)
{
	int loaded = guest_load_modules(job->modules);
	struct failure first = failure;
	int result = channel_open(job->channel);

	if (!loaded)
		return result;
	failure = first;
	return loaded;
}

static int describe(const struct guest_job *job)
{
	json_t *absent = json_array();
	int result = guest_set_sysctls(job->sysctls, absent);

	if (!result)
		result = guest_report_kernel(json_incref(absent));
	json_decref(absent);
	if (!result)
		result = guest_report_config();
	return result ? result : guest_check_bpf();
}

static int prepare(struct guest_job *job)
{
	int result = guest_system_start();

	if (!result)
		result = guest_job_read(JOB, job);
	if (!result)
		result = open_channel(job);
	if (!result)
		result = describe(job);
	guest_say("ports");
	if (!result)
		result = guest_netns_create();
	if (!result)
		result = guest_ports_create(job);
	if (!result && job->probe)
		result = guest_probe(job);
	return result;
}

static int run_trials(const struct guest_job *job)
{
	int result = 0;

	for (size_t i = 0; !result && i < json_array_size(job->trials); i++) {
		struct guest_trial trial = guest_job_trial(job, i);

		result = guest_trial_run(job, &trial);
	}
	return result;
}

static int run(void)
{
	struct guest_job job;
	int result = prepare(&job);

	if (!result && job.count) {
		result = window_fill();
		if (!result)
			window_arm();
	}
	if (!result)
		result = run_trials(&job);
	if (!result)
		result = guest_report_symbols();
	return result ? result : channel_line(json_pack("{s:b}", "end", 1));
}

void guest_run(void)
{
	signal(SIGPIPE, SIG_IGN);
	if (run()) {
		guest_say("error: %s: %s: %s", failure.object, failure.step, failure.reason);
		channel_failure();
	}
	channel_drain();
	guest_power_off();
}

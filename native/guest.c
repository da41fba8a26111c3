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
#include "guest_symbols.h"
#include "guest_system.h"
#include "guest_trial.h"

#define JOB "/job.json"

bool guest_is_init(const char *program)
{
	size_t len = strlen(program);

	return getpid() == 1 && len >= 4 && !strcmp(program + len - 4, "init");
}

static struct guest_job job;

static int read_job(void)
{
	return guest_job_read(JOB, &job);
}

static int load_modules(void)
{
	return guest_load_modules(job.modules);
}

static int open_channel(void)
{
	return channel_open(job.channel);
}

static int check_job(void)
{
	return guest_job_check(&job);
}

static int set_sysctls(void)
{
	json_t *absent = json_array();
	int result = guest_set_sysctls(job.sysctls, absent);

	if (!result)
		result = guest_report_kernel(json_incref(absent));
	json_decref(absent);
	return result;
}

static int create_ports(void)
{
	return guest_ports_create(&job);
}

static int wait_for_carrier(void)
{
	return guest_ports_wait(&job);
}

static int probe(void)
{
	return job.probe ? guest_probe(&job) : 0;
}

static int run_trials(void)
{
	int result = 0;

	for (size_t i = 0; !result && i < json_array_size(job.trials); i++) {
		struct guest_trial trial = guest_job_trial(&job, i);

		result = guest_trial_run(&job, &trial);
	}
	return result;
}

static int say_end(void)
{
	return channel_line(json_pack("{s:b}", "end", 1));
}

/* A guest that hangs is known by the last of these that the console shows. */
static const struct {
	const char *name;
	int (*run)(void);
} steps[] = {
	{"start", guest_system_start},
	{"read the job", read_job},
	{"load modules", load_modules},
	{"open the channel", open_channel},
	{"check the job", check_job},
	{"set sysctls", set_sysctls},
	{"report the configuration", guest_report_config},
	{"check for BPF", guest_check_bpf},
	{"prefer softirqs", guest_prefer_softirqs},
	{"make namespaces", guest_netns_create},
	{"make ports", create_ports},
	{"wait for carrier", wait_for_carrier},
	{"probe the ports", probe},
	{"run trials", run_trials},
	{"report symbols", guest_symbols_report},
	{"end", say_end},
};

static int run_steps(void)
{
	int result = 0;

	for (size_t i = 0; !result && i < sizeof(steps) / sizeof(steps[0]); i++) {
		guest_say("%s", steps[i].name);
		result = steps[i].run();
	}
	return result;
}

void guest_run(void)
{
	signal(SIGPIPE, SIG_IGN);
	if (run_steps()) {
		guest_say("error: %s: %s: %s", failure.object, failure.step, failure.reason);
		channel_failure(job.channel);
	}
	channel_drain();
	guest_power_off();
}

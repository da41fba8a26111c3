// SPDX-License-Identifier: GPL-2.0-or-later
/* The controller inside the guest: what xdprepro/trial.py is on a host. */
#include "guest_trial.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "error.h"
#include "guest_agent.h"
#include "guest_channel.h"
#include "guest_choice.h"
#include "guest_counter.h"
#include "guest_port.h"
#include "guest_system.h"
#include "window.h"

#define ANSWER_S 15.0 /* the longest wait for an answer that does no measuring */
/*
 * The kernel frees programs some time after their last user, and the dispatcher, which looks for a
 * program by its address, is longer or shorter by what lies before it. An idle guest skips this.
 */
#define SETTLE_NS (300 * NS_PER_MS)
#define COUNT_S 600.0 /* for all frames to be sent; the host has a deadline of its own */

struct conversation {
	const struct guest_job *job;
	const struct guest_trial *trial;
	struct guest_agent agents[SIDES];
	bool in_window; /* the generator may have opened one, and nobody closed it */
};

static json_t *get_value(const struct guest_trial *trial, enum side side, const char *key)
{
	return json_object_get(trial->specs[side], key);
}

static double measuring_s(const struct guest_trial *trial)
{
	return json_number_value(get_value(trial, SIDE_DUT, "settle_s")) +
	       json_number_value(get_value(trial, SIDE_DUT, "measure_s"));
}

/* The side whose frames are measured. */
static enum side sender_of(const struct guest_trial *trial)
{
	const char *role = json_string_value(get_value(trial, SIDE_DUT, "role"));

	return role && !strcmp(role, "transmit") ? SIDE_DUT : SIDE_TESTER;
}

static enum side receiver_of(const struct guest_trial *trial)
{
	return sender_of(trial) == SIDE_DUT ? SIDE_TESTER : SIDE_DUT;
}

static bool is_counted(const struct guest_trial *trial)
{
	return json_integer_value(get_value(trial, sender_of(trial), "count")) > 0;
}

/* Sockets that are polled without end leave the CPU to nobody. */
static bool spins(const struct guest_trial *trial)
{
	json_t *xsk = json_object_get(trial->specs[SIDE_DUT], "xsk");
	const char *wakeup = json_string_value(json_object_get(xsk, "wakeup"));

	return wakeup && strcmp(wakeup, "poll");
}

/* The text of the agent as it is, within a line of ours. */
static int hand_on(const struct guest_trial *trial, enum side side, const char *message)
{
	char *text;
	int len = asprintf(&text, "{\"slot\":%d,\"side\":\"%s\",\"msg\":%s}\n", trial->slot,
			   side_names[side], message);
	int result;

	if (len < 0)
		return fail(ENOMEM, side_names[side], "hand on");
	result = channel_text(text, len);
	free(text);
	return result;
}

static const char *get_text(json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "?";
}

static int fail_as(enum side side, json_t *error)
{
	return fail_because(0, side_names[side], "agent", "%s: %s: %s", get_text(error, "object"),
			    get_text(error, "step"), get_text(error, "reason"));
}

/* 1: it has the word; 0: it has not. */
static int take_message(enum side side, const char *line, const char *word)
{
	json_t *message = json_loads(line, 0, NULL);
	json_t *error = json_object_get(message, "error");
	int result = json_object_get(message, word) ? 1 : 0;

	if (!json_is_object(message))
		result = fail_because(0, side_names[side], "agent", "no JSON object: %.100s", line);
	else if (error)
		result = fail_as(side, error);
	else if (json_object_get(message, "ready"))
		guest_counter_note(side, message);
	json_decref(message);
	return result;
}

/* Hand on what both say until this one says the word; neither may fill its pipe meanwhile. */
static int await(struct conversation *talk, enum side side, const char *word, double timeout_s)
{
	int64_t deadline_ns = now_ns() + (int64_t)(timeout_s * NS_PER_S);
	struct guest_agent *from;
	const char *line;

	for (;;) {
		int result = guest_agents_read(talk->agents, SIDES, deadline_ns, &from, &line);

		if (result < 0)
			return result;
		if (!result)
			return fail_because(ETIMEDOUT, side_names[side], "agent",
					    "it did not say '%s' within %.0f s", word, timeout_s);
		result = hand_on(talk->trial, from->side, line);
		if (result)
			return result;
		result = take_message(from->side, line, from->side == side ? word : "");
		if (result)
			return result < 0 ? result : 0;
	}
}

static int command(struct conversation *talk, enum side side, const char *name)
{
	json_t *line = json_pack("{s:s}", "cmd", name);
	int result = guest_agent_send(&talk->agents[side], line);

	json_decref(line);
	return result;
}

static int ask(struct conversation *talk, enum side side, const char *name, const char *answer)
{
	int result = command(talk, side, name);

	return result ? result : await(talk, side, answer, ANSWER_S);
}

static int start(struct conversation *talk, enum side side)
{
	static char *const argv[] = {"xdprepro-agent", "trial", NULL};
	bool receives = side == SIDE_DUT && receiver_of(talk->trial) == SIDE_DUT;
	bool urgent = receives && is_counted(talk->trial) && !spins(talk->trial);
	int result = guest_agent_start(&talk->agents[side], side, argv, urgent);

	if (!result)
		result = guest_agent_send(&talk->agents[side], talk->trial->specs[side]);
	return result ? result : await(talk, side, "ready", ANSWER_S);
}

static int go(struct conversation *talk)
{
	int result = command(talk, receiver_of(talk->trial), "go");

	return result ? result : command(talk, sender_of(talk->trial), "go");
}

/* A DUT that transmits says `stopped` on its way to `drained`. */
static int stop(struct conversation *talk)
{
	int result = sender_of(talk->trial) == SIDE_DUT ? ask(talk, SIDE_DUT, "stop", "drained")
							: ask(talk, SIDE_TESTER, "stop", "stopped");

	return result ? result : ask(talk, receiver_of(talk->trial), "stop", "drained");
}

/* Packets come for a time, and the DUT says when it is over. */
static int measure_time(struct conversation *talk)
{
	int result = go(talk);

	if (!result)
		result = await(talk, SIDE_DUT, "measured", measuring_s(talk->trial) + ANSWER_S);
	return result ? result : stop(talk);
}

static void close_window(struct conversation *talk)
{
	window_close();
	talk->in_window = false;
}

/* A number of packets comes; the window that the generator opened ends when none is left. */
static int measure_count(struct conversation *talk)
{
	int result = talk->job->count ? guest_counter_arm(receiver_of(talk->trial)) : 0;

	if (result)
		return result;
	channel_hold();
	talk->in_window = true;
	result = go(talk);
	if (!result)
		result = await(talk, sender_of(talk->trial), "stopped", COUNT_S);
	if (!result && sender_of(talk->trial) == SIDE_DUT)
		result = ask(talk, SIDE_DUT, "stop", "drained");
	if (!result)
		result = ask(talk, receiver_of(talk->trial), "stop", "drained");
	if (!result)
		close_window(talk);
	return result;
}

static int finish(struct conversation *talk, enum side side)
{
	int result = ask(talk, side, "finish", "done");

	talk->agents[side].done = !result;
	return result;
}

static int converse(struct conversation *talk)
{
	int result = start(talk, SIDE_DUT);

	if (!result)
		result = start(talk, SIDE_TESTER);
	if (!result)
		result = is_counted(talk->trial) ? measure_count(talk) : measure_time(talk);
	if (!result)
		result = finish(talk, sender_of(talk->trial));
	return result ? result : finish(talk, receiver_of(talk->trial));
}

static void end_agents(struct conversation *talk, bool failed)
{
	int64_t deadline_ns = failed ? 0 : now_ns() + (int64_t)(ANSWER_S * NS_PER_S);

	for (int side = SIDES - 1; side >= 0; side--)
		guest_agent_end(&talk->agents[side], deadline_ns);
	guest_reap();
	if (is_counted(talk->trial))
		sleep_ns(SETTLE_NS);
}

static int report_end(const struct guest_trial *trial, bool failed)
{
	char reason[sizeof(failure.object) + sizeof(failure.reason) + 4] = "";

	if (failed)
		snprintf(reason, sizeof(reason), "%s: %s", failure.object, failure.reason);
	guest_say("trial %d: %s%s", trial->slot, failed ? "failed: " : "ok", reason);
	return channel_line(json_pack("{s:i, s:s, s:s}", "trial_end", trial->slot, "status",
				      failed ? "failed" : "ok", "reason", reason));
}

static int report_skip(const struct guest_trial *trial, const char *reason)
{
	guest_say("trial %d: skipped: %s", trial->slot, reason);
	return channel_line(json_pack("{s:i, s:s}", "trial_skip", trial->slot, "reason", reason));
}

static int run(const struct guest_job *job, const struct guest_trial *trial)
{
	struct conversation talk = {
		.job = job,
		.trial = trial,
		.agents = {{.pid = -1, .in = -1, .out = -1}, {.pid = -1, .in = -1, .out = -1}},
	};
	int result = channel_line(json_pack("{s:i}", "trial", trial->slot));
	bool failed;

	if (result)
		return result;
	guest_say("trial %d", trial->slot);
	failed = guest_ports_wait(job) || converse(&talk);
	end_agents(&talk, failed);
	/* Only when no generator is left to open it: the next trial's must not find it open. */
	if (talk.in_window)
		close_window(&talk);
	result = channel_release();
	return result ? result : report_end(trial, failed);
}

int guest_trial_run(const struct guest_job *job, struct guest_trial *trial)
{
	char reason[sizeof(failure.reason)];

	guest_choose(job->probes, trial, reason, sizeof(reason));
	return *reason ? report_skip(trial, reason) : run(job, trial);
}

static int probe(struct guest_job *job, enum side side)
{
	const char *ifname = job->ends[side].ifname;
	char *const argv[] = {"xdprepro-agent", "probe", (char *)ifname, NULL};
	struct guest_agent agent, *from;
	const char *line;
	int result = guest_agent_start(&agent, side, argv, false);

	if (!result)
		result = guest_agents_read(&agent, 1, now_ns() + (int64_t)(ANSWER_S * NS_PER_S),
					   &from, &line);
	if (!result)
		result = fail_because(ETIMEDOUT, side_names[side], "probe",
				      "the agent did not answer within %.0f s", ANSWER_S);
	if (result > 0)
		result = take_message(side, line, "");
	if (!result) {
		job->probes[side] = json_loads(line, 0, NULL);
		result = channel_line(json_pack("{s:s, s:O}", "probe", side_names[side], "msg",
						job->probes[side]));
	}
	guest_agent_end(&agent, now_ns() + (int64_t)(ANSWER_S * NS_PER_S));
	return result;
}

int guest_probe(struct guest_job *job)
{
	int result = probe(job, SIDE_DUT);

	return result ? result : probe(job, SIDE_TESTER);
}

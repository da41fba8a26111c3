// SPDX-License-Identifier: GPL-2.0-or-later
#include "guest_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "guest_port.h"

#define FIRST_SIZE 16384
#define SIZE_MAX_LEN (1 << 24)
#define REAP_STEP_NS NS_PER_MS
#define EXIT_NO_START 127

static void run(enum side side, char *const argv[], bool urgent, int in, int out)
{
	const struct sched_param lowest = {.sched_priority = 1};

	if (urgent && sched_setscheduler(0, SCHED_FIFO, &lowest))
		_exit(EXIT_NO_START);
	if (guest_netns_enter(side))
		_exit(EXIT_NO_START);
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	execv("/proc/self/exe", argv);
	_exit(EXIT_NO_START);
}

int guest_agent_start(struct guest_agent *agent, enum side side, char *const argv[], bool urgent)
{
	int in[2], out[2];

	*agent = (struct guest_agent){.side = side, .pid = -1, .in = -1, .out = -1};
	if (pipe2(in, O_CLOEXEC))
		return fail(errno, side_names[side], "pipe");
	if (pipe2(out, O_CLOEXEC)) {
		close(in[0]);
		close(in[1]);
		return fail(errno, side_names[side], "pipe");
	}
	agent->pid = fork();
	if (!agent->pid)
		run(side, argv, urgent, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	agent->in = in[1];
	agent->out = out[0];
	return agent->pid < 0 ? fail(errno, side_names[side], "fork") : 0;
}

static void close_pipes(struct guest_agent *agent)
{
	if (agent->in >= 0)
		close(agent->in);
	if (agent->out >= 0)
		close(agent->out);
	agent->in = -1;
	agent->out = -1;
}

void guest_agent_end(struct guest_agent *agent, int64_t deadline_ns)
{
	if (agent->pid > 0) {
		while (!waitpid(agent->pid, NULL, WNOHANG)) {
			if (now_ns() >= deadline_ns)
				kill(agent->pid, SIGKILL);
			sleep_ns(REAP_STEP_NS);
		}
	}
	close_pipes(agent);
	free(agent->text);
	agent->text = NULL;
	agent->pid = -1;
}

int guest_agent_send(struct guest_agent *agent, json_t *line)
{
	char *text = json_dumps(line, JSON_COMPACT);
	size_t len = text ? strlen(text) : 0;
	int result = 0;

	if (!text)
		return fail(ENOMEM, side_names[agent->side], "make a line");
	text[len] = '\n'; /* in place of the final 0 */
	if (write(agent->in, text, len + 1) != (ssize_t)len + 1)
		result = fail(errno, side_names[agent->side], "send to the agent");
	free(text);
	return result;
}

static const char *find_line(struct guest_agent *agent)
{
	char *end;

	if (!agent->text)
		return NULL;
	memmove(agent->text, agent->text + agent->consumed, agent->len - agent->consumed);
	agent->len -= agent->consumed;
	agent->consumed = 0;
	end = memchr(agent->text, '\n', agent->len);
	if (!end)
		return NULL;
	*end = '\0';
	agent->consumed = end + 1 - agent->text;
	return agent->text;
}

static int make_room(struct guest_agent *agent)
{
	size_t size = agent->size ? 2 * agent->size : FIRST_SIZE;
	char *text;

	if (agent->len < agent->size)
		return 0;
	text = size > SIZE_MAX_LEN ? NULL : realloc(agent->text, size);
	if (!text)
		return fail(ENOMEM, side_names[agent->side], "read the agent");
	agent->text = text;
	agent->size = size;
	return 0;
}

static int fail_ended(struct guest_agent *agent)
{
	const char *side = side_names[agent->side];
	int status = 0;

	waitpid(agent->pid, &status, 0);
	agent->pid = -1;
	if (WIFSIGNALED(status))
		return fail_because(0, side, "agent", "ended by signal %d (%s)", WTERMSIG(status),
				    strsignal(WTERMSIG(status)));
	return fail_because(0, side, "agent", "ended with status %d", WEXITSTATUS(status));
}

static int fill(struct guest_agent *agent)
{
	int result = make_room(agent);
	ssize_t n;

	if (result)
		return result;
	n = read(agent->out, agent->text + agent->len, agent->size - agent->len);
	if (n < 0)
		return errno == EINTR ? 0 : fail(errno, side_names[agent->side], "read the agent");
	if (!n)
		return fail_ended(agent);
	agent->len += n;
	return 0;
}

/* Read what there is of all of them; 0 also when the deadline comes first. */
static int fill_any(struct guest_agent *agents, size_t len, int64_t deadline_ns)
{
	int64_t left_ns = deadline_ns - now_ns();
	struct pollfd fds[SIDES];
	int result = 0;

	for (size_t i = 0; i < len; i++)
		fds[i] = (struct pollfd){.fd = agents[i].done ? -1 : agents[i].out,
					 .events = POLLIN};
	if (left_ns < 0)
		left_ns = 0;
	if (poll(fds, len, (left_ns + NS_PER_MS - 1) / NS_PER_MS) < 0)
		return errno == EINTR ? 0 : fail(errno, "agents", "poll");
	for (size_t i = 0; !result && i < len; i++)
		if (fds[i].revents)
			result = fill(&agents[i]);
	return result;
}

int guest_agents_read(struct guest_agent *agents, size_t len, int64_t deadline_ns,
		      struct guest_agent **from, const char **line)
{
	for (;;) {
		int result;

		for (size_t i = 0; i < len; i++) {
			*from = &agents[i];
			*line = find_line(&agents[i]);
			if (*line)
				return 1;
		}
		if (now_ns() >= deadline_ns)
			return 0;
		result = fill_any(agents, len, deadline_ns);
		if (result)
			return result;
	}
}

void guest_reap(void)
{
	while (waitpid(-1, NULL, WNOHANG) > 0)
		continue;
}

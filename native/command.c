// SPDX-License-Identifier: GPL-2.0-or-later
#include "command.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"

#define LINE_MAX_LEN 65536
#define UNREAD_MS 500 /* how long a reader may pause when we are to end */

static volatile sig_atomic_t interrupted;
static int signal_fd = -1;

static struct {
	char text[LINE_MAX_LEN];
	size_t len;      /* read from stdin */
	size_t consumed; /* of these, given out as the last line */
} input;

static void note_signal(int signal)
{
	uint64_t one = 1;
	ssize_t n;

	interrupted = signal;
	n = write(signal_fd, &one, sizeof(one));
	(void)n; /* an event counter that is full is as good */
}

int command_catch_signals(void)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
	struct sigaction action = {.sa_handler = note_signal};

	signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (signal_fd < 0)
		return fail(errno, "agent", "eventfd");
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

static char *find_line(void)
{
	char *end;

	memmove(input.text, input.text + input.consumed, input.len - input.consumed);
	input.len -= input.consumed;
	input.consumed = 0;
	end = memchr(input.text, '\n', input.len);
	if (!end)
		return NULL;
	*end = '\0';
	input.consumed = end + 1 - input.text;
	return input.text;
}

static int fail_gone(void)
{
	return fail_because(0, "stdin", "read", "end of file: the controller is gone");
}

static int fail_interrupted(void)
{
	return fail_because(0, "agent", "signal", "%s", strsignal(interrupted));
}

static int fill_input(void)
{
	ssize_t n;

	if (input.len == sizeof(input.text))
		return fail_usage("stdin", "read", "a line is longer than %d bytes", LINE_MAX_LEN);
	n = read(STDIN_FILENO, input.text + input.len, sizeof(input.text) - input.len);
	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0)
		return fail(errno, "stdin", "read");
	if (n == 0)
		return fail_gone();
	input.len += n;
	return 0;
}

/* 1: stdin is readable; 2: event_fd is; 0: neither until the deadline. */
static int wait_for_input(int64_t deadline_ns, int event_fd)
{
	struct pollfd fds[] = {
		{.fd = STDIN_FILENO, .events = POLLIN},
		{.fd = signal_fd, .events = POLLIN},
		{.fd = event_fd, .events = POLLIN},
	};
	struct timespec timeout;
	int64_t left_ns;

	for (;;) {
		left_ns = deadline_ns == NO_DEADLINE ? NS_PER_S : deadline_ns - now_ns();
		if (left_ns < 0)
			left_ns = 0;
		timeout.tv_sec = left_ns / NS_PER_S;
		timeout.tv_nsec = left_ns % NS_PER_S;
		if (ppoll(fds, 3, &timeout, NULL) < 0 && errno != EINTR)
			return fail(errno, "stdin", "poll");
		if (interrupted)
			return fail_interrupted();
		if (fds[0].revents)
			return 1;
		if (fds[2].revents)
			return 2;
		if (deadline_ns != NO_DEADLINE && now_ns() >= deadline_ns)
			return 0;
	}
}

/* 1: a line; 2: event_fd; 0: deadline. */
static int wait_for_line(int64_t deadline_ns, int event_fd, char **line)
{
	int result;

	for (;;) {
		*line = find_line();
		if (*line)
			return 1;
		result = wait_for_input(deadline_ns, event_fd);
		if (result != 1)
			return result;
		result = fill_input();
		if (result < 0)
			return result;
	}
}

int command_read_line(char **line)
{
	int result = wait_for_line(NO_DEADLINE, -1, line);

	return result < 0 ? result : 0;
}

static int parse(const char *line, enum command *command)
{
	static const struct {
		const char *name;
		enum command command;
	} commands[] = {{"go", COMMAND_GO}, {"stop", COMMAND_STOP}, {"finish", COMMAND_FINISH}};
	json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	const char *name = json_string_value(json_object_get(object, "cmd"));
	bool known = false;

	for (size_t i = 0; name && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(name, commands[i].name) && json_object_size(object) == 1) {
			*command = commands[i].command;
			known = true;
		}
	json_decref(object);
	if (known)
		return 0;
	return fail_usage("stdin", "command", "%.80s is not {\"cmd\": \"go\"|\"stop\"|\"finish\"}",
			  line);
}

int command_wait(int64_t deadline_ns, int event_fd, enum command *command)
{
	char *line;
	int result = wait_for_line(deadline_ns, event_fd, &line);

	if (result < 0)
		return result;
	if (result == 1)
		return parse(line, command);
	*command = result == 2 ? COMMAND_EVENT : COMMAND_TIMEOUT;
	return 0;
}

int command_pause(int64_t ns)
{
	struct pollfd fds[] = {
		{.fd = STDIN_FILENO, .events = POLLRDHUP},
		{.fd = signal_fd, .events = POLLIN},
	};
	struct timespec timeout = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};

	if (ppoll(fds, 2, &timeout, NULL) < 0 && errno != EINTR)
		return fail(errno, "stdin", "poll");
	if (interrupted)
		return fail_interrupted();
	return fds[0].revents ? fail_gone() : 0;
}

int command_wait_to_write(void)
{
	struct pollfd fds[] = {
		{.fd = STDOUT_FILENO, .events = POLLOUT},
		{.fd = signal_fd, .events = POLLIN},
		/* Only the end of stdin: commands may lie there. `probe` and `version` have none.
		 */
		{.fd = signal_fd < 0 ? -1 : STDIN_FILENO, .events = POLLRDHUP},
	};
	nfds_t len = 3;
	int n;

	for (;;) {
		n = poll(fds, len, len == 1 ? UNREAD_MS : -1);
		if (n < 0 && errno != EINTR)
			return fail(errno, "stdout", "poll");
		if (n < 0)
			continue;
		if (fds[0].revents)
			return 0;
		if (!n)
			return fail_because(ETIMEDOUT, "stdout", "write", "nobody reads it");
		len = 1;
	}
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "out.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "error.h"

static bool stdout_has_room(void)
{
	struct pollfd fd = {.fd = STDOUT_FILENO, .events = POLLOUT};

	return poll(&fd, 1, 0) == 1;
}

/* After a signal nothing waits for a controller that does not read. */
static int write_all(const char *text, size_t len)
{
	while (len) {
		ssize_t n;

		if (command_interrupted() && !stdout_has_room())
			return fail_because(EINTR, "agent", "write to stdout", "nobody reads it");
		n = write(STDOUT_FILENO, text, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(errno, "agent", "write to stdout");
		text += n;
		len -= n;
	}
	return 0;
}

int out_line(json_t *line)
{
	int result = -ENOMEM;
	char *text = NULL;
	size_t len;

	if (line)
		text = json_dumps(line, JSON_COMPACT);
	json_decref(line);
	if (!text)
		return fail(ENOMEM, "agent", "make a line");
	len = strlen(text);
	text[len] = '\n'; /* in place of the final 0: one write, so lines of two agents never mix */
	result = write_all(text, len + 1);
	free(text);
	return result;
}

int out_failure(void)
{
	json_t *error = json_pack("{s:s, s:s, s:s}", "object", failure.object, "step", failure.step,
				  "reason", failure.reason);

	if (failure.err)
		json_object_set_new(error, "errno", json_integer(failure.err));
	if (failure.hint[0])
		json_object_set_new(error, "hint", json_string(failure.hint));
	return out_line(json_pack("{s:o}", "error", error));
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "out.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "error.h"

/*
 * A pipe that polls as writable takes PIPE_BUF bytes at once, so it is poll(2) that waits for a
 * reader, never write(2), and no signal comes between a check and the wait.
 */
static int write_all(const char *text, size_t len)
{
	while (len) {
		int result = command_wait_to_write();
		ssize_t n;

		if (result)
			return result;
		n = write(STDOUT_FILENO, text, len < PIPE_BUF ? len : PIPE_BUF);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(errno, "stdout", "write");
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
	text[len] = '\n'; /* in place of the final 0 */
	result = write_all(text, len + 1);
	free(text);
	return result;
}

json_t *failure_describe(void)
{
	json_t *error = json_pack("{s:s, s:s, s:s}", "object", failure.object, "step", failure.step,
				  "reason", failure.reason);

	if (failure.err)
		json_object_set_new(error, "errno", json_integer(failure.err));
	if (failure.hint[0])
		json_object_set_new(error, "hint", json_string(failure.hint));
	return json_pack("{s:o}", "error", error);
}

int out_failure(void)
{
	return out_line(failure_describe());
}

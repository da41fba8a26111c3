/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_COMMAND_H
#define XDPREPRO_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

enum command {
	COMMAND_TIMEOUT, /* none until the deadline */
	COMMAND_EVENT,   /* none, but the watched descriptor became readable */
	COMMAND_GO,
	COMMAND_STOP,
	COMMAND_FINISH,
};

#define NO_DEADLINE INT64_MAX

/* Turn SIGTERM, SIGINT and SIGHUP into a failure of the next command_ call, and ignore SIGPIPE. */
int command_catch_signals(void);

/* The next line of stdin without its end, valid until the next call. End of file is a failure. */
int command_read_line(char **line);

/* Wait for a command, for event_fd (-1: none), or until deadline_ns of CLOCK_MONOTONIC. */
int command_wait(int64_t deadline_ns, int event_fd, enum command *command);

/* Let time pass, commands unread; a signal, or a controller that is gone, is a failure at once. */
int command_pause(int64_t ns);

/* Wait until stdout takes more; for a moment only once a signal came or the controller is gone. */
int command_wait_to_write(void);

#endif

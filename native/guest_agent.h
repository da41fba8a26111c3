/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_GUEST_AGENT_H
#define XDPREPRO_GUEST_AGENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest_job.h"

/* Our own program, run in the namespace of a side with pipes for its input and output. */
struct guest_agent {
	enum side side;
	pid_t pid;
	int in; /* -1: closed */
	int out;
	bool done; /* nothing more is expected of it: its end is no news */
	char *text;
	size_t size;
	size_t len;      /* read so far */
	size_t consumed; /* of these, given out as the last line */
};

/*
 * `argv` ends with NULL; its first word is the agent's name. An urgent one runs as soon as it has
 * something to do.
 */
int guest_agent_start(struct guest_agent *agent, enum side side, char *const argv[], bool urgent);

/* Kill it unless it ended by itself before the deadline, and reap it. */
void guest_agent_end(struct guest_agent *agent, int64_t deadline_ns);

int guest_agent_send(struct guest_agent *agent, json_t *line);

/*
 * The next line of any of the agents, valid until the next call for the agent that said it.
 * 1: a line; 0: the deadline; an agent that ends is a failure.
 */
int guest_agents_read(struct guest_agent *agents, size_t len, int64_t deadline_ns,
		      struct guest_agent **from, const char **line);

/* Reap what was orphaned to us. */
void guest_reap(void);

#endif

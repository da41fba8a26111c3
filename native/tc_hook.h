/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_TC_HOOK_H
#define XDPREPRO_TC_HOOK_H

#include "link.h"

/*
 * A program at the ingress of a port, in a clsact qdisc that is made for it. The kernel leaves both
 * there when their maker is killed, so the next one that wants the port takes them away.
 */
struct tc_hook {
	const struct link *link;
	int lock_fd; /* held as long as we live */
	bool made;
};

int tc_hook_create(struct tc_hook *hook, const struct link *link, int prog_fd);
void tc_hook_destroy(struct tc_hook *hook);

/* Whether a program can be there. */
int tc_hook_try(const struct link *link);

/* The program that is there now; 0: none, or it cannot be read. */
unsigned int tc_hook_program(const struct tc_hook *hook);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_GENL_H
#define XDPREPRO_GENL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/netlink.h>

/* A question to a generic netlink family, with up to two attributes of 32 bits; number 0: none. */
struct genl_question {
	const char *family;
	uint8_t command;
	uint16_t attribute[2];
	uint32_t value[2];
};

/* The attributes of one answer, by number; NULL: the kernel did not send it. */
#define GENL_ATTRIBUTES 64
struct genl_answer {
	const struct nlattr *attributes[GENL_ATTRIBUTES];
};

/* Every answer of a dump goes to `keep`. 0, -errno of the kernel, or what `keep` returned. */
int genl_dump(const struct genl_question *question,
	      int (*keep)(const struct genl_answer *answer, void *context), void *context);

/* An attribute of 32 or 64 bits; false: it is not there, or neither. */
bool genl_number(const struct genl_answer *answer, int attribute, uint64_t *number);

/* The attributes within an attribute; false: it is not there. */
bool genl_nested(const struct genl_answer *answer, int attribute, struct genl_answer *inner);

#endif

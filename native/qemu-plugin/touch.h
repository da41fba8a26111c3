/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_TOUCH_H
#define XDPREPRO_TOUCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * The memory pass: which function loads and stores how often, and how many cache lines of 64 bytes
 * it touches a packet. A packet begins where the DUT's program is entered and lasts until it is
 * entered again; a line that a function touches often meanwhile counts once for it.
 */
struct touch_function;

/* The one function that starts here. */
struct touch_function *touch_find(uint64_t address);

void touch_access(struct touch_function *function, unsigned int context, bool store,
		  uint64_t address, unsigned int len);
void touch_begins_packet(void);

/* Forget all. */
void touch_clear(void);

/* One line for each function and context that touched anything, in order of address. */
void touch_print(FILE *file);

#endif

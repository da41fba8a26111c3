/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_GUEST_CHANNEL_H
#define XDPREPRO_GUEST_CHANNEL_H

#include <jansson.h>
#include <stddef.h>

/* The way of results to the host; there is one in a guest. `kind` is an enum guest_channel. */
int channel_open(int kind);

/* Send one object as one line, and release it. */
int channel_line(json_t *line);

/* Send text that is made already, with its end of line. */
int channel_text(const char *text, size_t len);

/* Keep in memory what is sent from now on: nothing is written while packets are counted. */
void channel_hold(void);

/* Write what was held, and write at once again. */
int channel_release(void);

/* Send what fail() remembered; the channel may be opened for it. */
void channel_failure(int kind);

/* Wait until the host has it all. */
void channel_drain(void);

#endif

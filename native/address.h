/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_ADDRESS_H
#define XDPREPRO_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "link.h"

/* Where the frames of generators go to: 198.18.0.2, and 198.18.0.1 is within reach. */
#define FRAME_ADDRESS 0xc6120002
#define FRAME_PREFIX_LEN 30

/* That address on a port, for as long as a trial takes. */
struct address {
	const struct link *link;
	bool ours; /* not there before */
};

/*
 * The kernel takes it away by itself after a time, so that an agent that was killed leaves nothing
 * for long. The address with another prefix is somebody's own, and will do.
 */
int address_create(struct address *address, const struct link *link, int64_t lifetime_ns);
void address_destroy(struct address *address);

#endif

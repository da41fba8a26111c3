// SPDX-License-Identifier: GPL-2.0-or-later
/* The system call that makes the kernel send. */
#include "xsk.h"

#include <errno.h>
#include <sys/socket.h>

#include "error.h"

/* In copy mode a call sends 32 frames at most, and a ring that fails goes on in the next round. */
#define TRIES 32

/* What is no fault: the kernel or the port cannot take more now. */
static uint64_t *find_counter(struct xsk *xsk, int err)
{
	switch (err) {
	case EAGAIN:
		return &xsk->counters.tx_eagain;
	case EBUSY:
		return &xsk->counters.tx_ebusy;
	case ENOBUFS:
		return &xsk->counters.tx_enobufs;
	case ENETDOWN:
		return &xsk->counters.tx_enetdown;
	default:
		return NULL;
	}
}

int xsk_kick(struct xsk *xsk)
{
	for (int i = 0; i < TRIES && xsk_unsent(xsk); i++) {
		uint64_t *counter;

		if (xsk->asks && !xsk_ring_prod__needs_wakeup(&xsk->tx))
			return 0;
		xsk_add(&xsk->counters.tx_wakeups, 1);
		if (sendto(xsk->tx_fd, NULL, 0, MSG_DONTWAIT, NULL, 0) >= 0)
			return 0;
		counter = find_counter(xsk, errno);
		if (!counter)
			return fail(errno, xsk->name, "send");
		xsk_add(counter, 1);
		if (counter != &xsk->counters.tx_eagain)
			return 0;
	}
	return 0;
}

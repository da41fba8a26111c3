/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_WORK_SHARE_H
#define XDPREPRO_WORK_SHARE_H

#include <stdbool.h>

/* Of that many flows, how many belong to a share in percent. */
static inline int work_dropped(int flows, int percent)
{
	return (long)flows * percent / 100;
}

static inline int work_forwarded(int flows, int percent)
{
	return flows - work_dropped(flows, percent);
}

/* Whether a flow belongs to the share: they are spread evenly. */
static inline bool work_shared(int flow, int percent)
{
	return work_dropped(flow + 1, percent) > work_dropped(flow, percent);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_LIVE_FRAMES_H
#define XDPREPRO_LIVE_FRAMES_H

/* Run one live frame that is dropped at once: does this kernel have them? */
int live_frames_try(const char *ifname);

#endif

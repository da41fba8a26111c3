/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_PROBE_H
#define XDPREPRO_PROBE_H

/* Print what this kernel and port can do, found by trying. */
int probe_run(const char *ifname);

#endif

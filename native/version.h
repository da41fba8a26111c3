/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_VERSION_H
#define XDPREPRO_VERSION_H

/* Print what this binary was built from. */
int version_run(void);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_GUEST_SYMBOLS_H
#define XDPREPRO_GUEST_SYMBOLS_H

/* A copy of what /proc/kallsyms says of functions: the kernel takes seconds to make that text. */
#define GUEST_SYMBOLS "/symbols"

int guest_symbols_save(void);

/* Send the copy, if there is one. */
int guest_symbols_report(void);

#endif

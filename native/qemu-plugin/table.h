/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_TABLE_H
#define XDPREPRO_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "../window.h"

/* What the agent in the guest wrote down; NULL, or what is wrong with it. */
const char *table_read(uint64_t address);

/* The kind of mark that code at this address has, 0: none. */
enum window_mark_kind table_mark(uint64_t address);

/* The first address of the DUT's program, 0: not told. */
uint64_t table_program(void);

/* Where the function of this address starts; 0: below the first. */
uint64_t table_function(uint64_t address);

#endif

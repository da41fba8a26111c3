/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_GUEST_H
#define XDPREPRO_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum guest_register { REGISTER_ARGUMENT_1, REGISTER_ARGUMENT_2, REGISTER_STACK, REGISTERS_LEN };

/* Only in a callback of a vCPU; false: this QEMU's guest lacks one of the registers. */
bool guest_find_registers(void);

/* Only in a callback that reads registers. */
bool guest_register(enum guest_register which, uint64_t *value);

/* Read memory as the guest's code sees it at this moment. */
bool guest_read(uint64_t address, void *data, size_t len);

#endif

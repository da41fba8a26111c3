/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_PORTS_H
#define XDPREPRO_PORTS_H

/*
 * The devmap of the programs that redirect through one. The agent sets its slots: one, or for
 * copies as many as it makes bigger.
 */

#include "program.h"

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps");

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_SOCKETS_H
#define XDPREPRO_SOCKETS_H

/* The sockets of the programs that redirect to one: by queue, set by the agent. */

#include "program.h"

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, RECORD_RXQS);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

#endif

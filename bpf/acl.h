/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_ACL_H
#define XDPREPRO_ACL_H

#include "program.h"
#include "work_flow.h"

/* The flows to drop. The agent sets the size, and fills it before packets come. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct flow);
	__type(value, __u32);
} acl SEC(".maps");

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_BALANCE_H
#define XDPREPRO_BALANCE_H

#include "workers.h"
#include "work_lb.h"

/* Flow to number of its backend. The agent sets the size; packets add their sessions. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct flow);
	__type(value, __u32);
} sessions SEC(".maps");

/* Address, port and protocol of a service to the number of its first backend. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WORK_SERVICES);
	__type(key, struct flow);
	__type(value, __u32);
} services SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WORK_SERVICES *WORK_BACKENDS_MAX);
	__type(key, __u32);
	__type(value, struct backend);
} backends SEC(".maps");

/* Any session is served, also where the table is full. NULL: the packet is for no service. */
static __noinline struct backend *add_session(const struct flow *flow)
{
	struct flow service = work_service(flow);
	__u32 *first = bpf_map_lookup_elem(&services, &service);
	__u32 chosen;

	if (!first)
		return NULL;
	chosen = work_choose(flow, *first, knobs.backends);
	if (bpf_map_update_elem(&sessions, flow, &chosen, BPF_ANY))
		find_worker()->refused_sessions++;
	else
		find_worker()->new_sessions++;
	return bpf_map_lookup_elem(&backends, &chosen);
}

/* Rewrite a packet of a flow that work_find_flow() knew; false: it is for no service. */
static __always_inline _Bool balance(struct ethhdr *eth, const struct flow *flow)
{
	__u32 *number = bpf_map_lookup_elem(&sessions, flow);
	struct backend *backend =
		number ? bpf_map_lookup_elem(&backends, number) : add_session(flow);

	if (!backend)
		return 0;
	work_rewrite(eth, backend);
	swap_macs(eth);
	return 1;
}

#endif

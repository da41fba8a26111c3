// SPDX-License-Identifier: GPL-2.0-or-later
#include "count.h"
#include "flow_hash.h"
#include "ports.h"

const volatile struct cpus_knobs knobs;

/* Its keys are numbers of CPUs; the agent sets its size, and that of its values. */
struct {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bpf_cpumap_val);
} cpus SEC(".maps");

/* Of the programs on the other CPUs, which see no receive queue. */
struct record remote_records[RECORD_CPUS * RECORDS_ONE_QUEUE] SEC(".bss.remote");

/* Each CPU takes turns for each queue of its own. */
static __always_inline __u32 take_turn(struct record *record)
{
	__u64 turn = record->packets[RECORD_NEXT];

	record->packets[RECORD_NEXT] = turn + 1 < knobs.len ? turn + 1 : 0;
	return knobs.cpus[turn & (CPUS_MAX - 1)];
}

SEC("xdp")
int xdp_redirect_cpu_round_robin(struct xdp_md *ctx)
{
	struct held held;
	struct record *record;

	held.ctx = ctx;
	record = find_record_saving(ctx, &held.saved);
	record->packets[XDP_REDIRECT]++;
	return settle_redirect(&held, bpf_redirect_map(&cpus, take_turn(record), XDP_ABORTED),
			       XDP_ABORTED);
}

SEC("xdp")
int xdp_redirect_cpu_l4_hash(struct xdp_md *ctx)
{
	/* On the stack also where the queue need not be read: the hash comes after the count. */
	struct xdp_md *volatile again = ctx;
	struct held held;
	__u32 cpu;

	held.ctx = ctx;
	find_record_saving(ctx, &held.saved)->packets[XDP_REDIRECT]++;
	cpu = knobs.cpus[((__u64)hash_flow(again) * knobs.len >> 32) & (CPUS_MAX - 1)];
	return settle_redirect(&held, bpf_redirect_map(&cpus, cpu, XDP_ABORTED), XDP_ABORTED);
}

static __always_inline int count_remote(int action)
{
	__u64 cpu = read_cpu() & (RECORD_CPUS - 1);

	return count_in(&remote_records[cpu * RECORDS_ONE_QUEUE], action);
}

SEC("xdp/cpumap")
int xdp_remote_drop(struct xdp_md *ctx)
{
	return count_remote(XDP_DROP);
}

SEC("xdp/cpumap")
int xdp_remote_pass(struct xdp_md *ctx)
{
	return count_remote(XDP_PASS);
}

SEC("xdp/cpumap")
int xdp_remote_redirect(struct xdp_md *ctx)
{
	return count_remote(bpf_redirect_map(&ports, 0, XDP_ABORTED));
}

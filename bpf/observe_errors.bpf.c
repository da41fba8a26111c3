// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Counts what the XDP tracepoints tell, at no cost to a packet that goes well but for bulks and
 * polls. Raw tracepoints need neither tracefs nor BTF, and their numbers are arguments since 5.10
 * at least.
 */
#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "observe.h"

char _license[] SEC("license") = "GPL";

const volatile struct observe_knobs knobs;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct observed);
} observed SEC(".maps");

static __always_inline struct observed *find_observed(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&observed, &key);
}

static __always_inline __u64 read_pointer(__u64 base, __u32 offset)
{
	__u64 pointer = 0;

	bpf_probe_read_kernel(&pointer, sizeof(pointer), (void *)(base + offset));
	return pointer;
}

static __always_inline __u32 read_number(__u64 base, __u32 offset)
{
	__u32 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), (void *)(base + offset));
	return number;
}

static __always_inline bool is_program(__u64 prog)
{
	__u32 id;

	if (knobs.prog_aux < 0 || knobs.aux_id < 0)
		return true;
	id = read_number(read_pointer(prog, knobs.prog_aux), knobs.aux_id);
	return id == knobs.prog_id || (knobs.also_id && id == knobs.also_id);
}

static __always_inline bool is_port(__u64 dev)
{
	if (knobs.dev_ifindex < 0 || knobs.dev_net < 0 || knobs.net_inum < 0)
		return true;
	return read_number(dev, knobs.dev_ifindex) == knobs.ifindex &&
	       read_number(read_pointer(dev, knobs.dev_net), knobs.net_inum) == knobs.netns;
}

/* One of `len` counts, a power of two; the last is for all above. */
static __always_inline void count_at(__u64 *counts, __u32 index, __u32 len)
{
	__u64 bounded = index < len ? index : len - 1;

	/* Else the compiler knows that the mask does nothing, but the verifier does not. */
	asm volatile("" : "+r"(bounded));
	counts[bounded & (len - 1)]++;
}

/* An argument of type int, widened without its sign. */
static __always_inline void count_errno(__u64 *counts, __u64 err)
{
	count_at(counts, -(__s32)err, OBSERVE_ERRNOS);
}

/* dev, program, action */
SEC("raw_tp/xdp_exception")
int on_exception(struct bpf_raw_tracepoint_args *ctx)
{
	struct observed *counts = find_observed();

	if (counts && is_program(ctx->args[1]))
		counts->exception[ctx->args[2] & (OBSERVE_ACTIONS - 1)]++;
	return 0;
}

/* dev, program, target, error, ... */
SEC("raw_tp/xdp_redirect_err")
int on_redirect_err(struct bpf_raw_tracepoint_args *ctx)
{
	struct observed *counts = find_observed();

	if (counts && is_program(ctx->args[1]))
		count_errno(counts->redirect_err, ctx->args[3]);
	return 0;
}

/* from, to, sent, drops, error: of a bulk */
SEC("raw_tp/xdp_devmap_xmit")
int on_devmap_xmit(struct bpf_raw_tracepoint_args *ctx)
{
	struct observed *counts = find_observed();

	if (!counts || !is_port(ctx->args[0]))
		return 0;
	counts->devmap_xmit.calls++;
	counts->devmap_xmit.sent += (__u32)ctx->args[2];
	counts->devmap_xmit.drops += (__u32)ctx->args[3];
	if ((__u32)ctx->args[4])
		count_errno(counts->devmap_xmit.err, ctx->args[4]);
	return 0;
}

/* map, processed, drops, target */
SEC("raw_tp/xdp_cpumap_enqueue")
int on_cpumap_enqueue(struct bpf_raw_tracepoint_args *ctx)
{
	struct observed *counts = find_observed();

	if (!counts || (__u32)ctx->args[0] != knobs.cpumap)
		return 0;
	counts->cpumap_enqueue.calls++;
	counts->cpumap_enqueue.processed += (__u32)ctx->args[1];
	counts->cpumap_enqueue.drops += (__u32)ctx->args[2];
	return 0;
}

/* map, processed, drops, sched, what its program did: redirect, pass, drop */
SEC("raw_tp/xdp_cpumap_kthread")
int on_cpumap_kthread(struct bpf_raw_tracepoint_args *ctx)
{
	struct observed *counts = find_observed();

	if (!counts || (__u32)ctx->args[0] != knobs.cpumap)
		return 0;
	counts->cpumap_kthread.calls++;
	counts->cpumap_kthread.processed += (__u32)ctx->args[1];
	counts->cpumap_kthread.drops += (__u32)ctx->args[2];
	counts->cpumap_kthread.sched += !!(__u32)ctx->args[3];
	counts->cpumap_kthread.redirect += read_number(ctx->args[4], 0);
	counts->cpumap_kthread.pass += read_number(ctx->args[4], 4);
	counts->cpumap_kthread.drop += read_number(ctx->args[4], 8);
	return 0;
}

/* NAPI instance, work, budget */
SEC("raw_tp/napi_poll")
int on_napi_poll(struct bpf_raw_tracepoint_args *ctx)
{
	struct observed *counts = find_observed();

	if (counts && (knobs.napi_dev < 0 || is_port(read_pointer(ctx->args[0], knobs.napi_dev))))
		count_at(counts->napi_poll, ctx->args[1], OBSERVE_WORKS);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_COUNT_H
#define XDPREPRO_COUNT_H

/*
 * One array in .bss: no map lookup and no test of its result, and the agent reads it through a
 * memory map without a system call. Only its own CPU writes a record, so plain adds are enough.
 *
 * Each source is built twice: ONE_QUEUE is for ports with one receive queue, where its number need
 * not be read. docs/programs.md says what counting costs, and why it is laid out like this.
 */

#include "program.h"

#ifdef ONE_QUEUE
#define RECORDS_PER_CPU RECORDS_ONE_QUEUE
#define HELD
#else
#define RECORDS_PER_CPU RECORDS_QUEUES
#define HELD volatile /* stays on the stack: a callee-saved register costs one instruction more */
#endif

/* What a call would lose. In this order: see find_offset(). */
struct held {
	__u64 saved;
	struct xdp_md *HELD ctx;
};

/* The only variable of .bss, so the agent finds it at its start. */
struct record records[RECORD_CPUS * RECORDS_PER_CPU];

/* In 64 bits: with the 32 of the helper's declaration clang adds two shifts. */
static __u64 (*const read_cpu)(void) = (void *)BPF_FUNC_get_smp_processor_id;

/*
 * The agent refuses ports with more receive queues and hosts with more CPUs, so the mask is for the
 * verifier and never changes the offset.
 */
static __always_inline __u64 limit_offset(__u64 index)
{
	return index * sizeof(struct record) & (sizeof(records) - sizeof(struct record));
}

/* The queue's number, where it has to be read. */
static __always_inline __u32 find_queue(struct xdp_md *ctx)
{
#ifdef ONE_QUEUE
	return 0;
#else
	return ctx->rx_queue_index;
#endif
}

#ifdef ONE_QUEUE
static __always_inline __u64 find_offset(struct xdp_md *ctx, __u64 *saved)
{
	return limit_offset(read_cpu() * RECORDS_PER_CPU);
}
#else
/*
 * Since Linux kernel commit 5b5f51bff1b6 ("bpf: no_caller_saved_registers attribute for helper
 * calls") (in v6.12) a register saved around this call in just this form, in the last place of the
 * stack, is not saved at all.
 */
static __always_inline __u64 find_offset(struct xdp_md *ctx, __u64 *saved)
{
	register struct xdp_md *kept __asm__("r1") = ctx;
	register __u64 cpu __asm__("r0");

	__asm__ volatile("*(u64 *)%[saved] = r1\n"
			 "call %[helper]\n"
			 "r1 = *(u64 *)%[saved]"
			 : "=r"(cpu), "+r"(kept), [saved] "=m"(*saved)
			 : [helper] "i"(BPF_FUNC_get_smp_processor_id)
			 : "r2", "r3", "r4", "r5");
	return limit_offset(cpu * RECORDS_PER_CPU + find_queue(kept));
}
#endif

/* The address is loaded where it is used: clang would keep it in a callee-saved register. */
static __always_inline struct record *find_record_saving(struct xdp_md *ctx, __u64 *saved)
{
	__u64 offset = find_offset(ctx, saved);
	void *base;

	__asm__ volatile("%0 = records ll" : "=r"(base));
	return base + offset;
}

static __always_inline struct record *find_record(struct xdp_md *ctx)
{
	__u64 saved;

	return find_record_saving(ctx, &saved);
}

/* The empty statement tells two slots apart: clang would share the adding and compute the place. */
static __always_inline void count_slot(struct xdp_md *ctx, int slot)
{
	find_record(ctx)->packets[slot]++;
	__asm__ volatile("" ::"i"(slot));
}

/* A constant that is loaded here: clang would do it before a call, and save it. */
static __always_inline int make_action(int action)
{
	int made;

	__asm__ volatile("%0 = %1" : "=r"(made) : "i"(action));
	return made;
}

/* Count a packet and return its action, a constant. */
static __always_inline int count(struct xdp_md *ctx, int action)
{
	count_slot(ctx, action);
	return make_action(action);
}

/*
 * The comparison is hidden from clang, which would load the result that it knows once more. Nothing
 * but the action that the caller asked for can come of a redirect that is refused.
 */
static __always_inline int settle_redirect(struct held *held, long result, int otherwise)
{
	struct record *record;

	asm goto("if %0 != %1 goto %l2" ::"r"(result), "i"(XDP_REDIRECT)::refused);
	return result;
refused:
	record = find_record_saving(held->ctx, &held->saved);
	record->packets[RECORD_REFUSED]++;
	record->packets[otherwise]++;
	return make_action(otherwise);
}

/*
 * Count a redirect and do it. It is counted before, so that nothing has to survive the helper's
 * call, and set right where the helper returns `otherwise` instead.
 */
#define count_redirect(CTX, REDIRECT, OTHERWISE)                                \
	({                                                                      \
		struct held held_;                                              \
		held_.ctx = (CTX);                                              \
		find_record_saving(CTX, &held_.saved)->packets[XDP_REDIRECT]++; \
		settle_redirect(&held_, (REDIRECT), (OTHERWISE));               \
	})

#endif

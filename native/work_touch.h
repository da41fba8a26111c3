/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_WORK_TOUCH_H
#define XDPREPRO_WORK_TOUCH_H

/*
 * The works in user space, to be inlined into a loop. Each says whether the packet is kept: what
 * the program of the same work drops or passes to the stack is not. The loop has to use the answer,
 * or a look-up is none.
 */

#include "../bpf/work_csum.h"
#include "work.h"

static __always_inline bool touch_mem(struct work_thread *thread, uint8_t *frame, uint32_t len)
{
	const struct work_state *state = thread->state;

	(void)frame;
	(void)len;
	state->lines[work_next_line(&thread->own, state->spec->lines)].packets++;
	return true;
}

static __always_inline bool touch_csum(struct work_thread *thread, uint8_t *frame, uint32_t len)
{
	return work_checksum(frame, frame + len, thread->state->spec->iterations);
}

static __always_inline bool touch_fw(struct work_thread *thread, uint8_t *frame, uint32_t len)
{
	struct flow flow;

	return !work_find_flow(frame, frame + len, &flow) ||
	       flow_table_find(&thread->state->acl, &flow) < 0;
}

static __always_inline bool balance_flow(struct work_thread *thread, uint8_t *frame,
					 const struct flow *flow)
{
	int number = flow_table_find(&thread->state->sessions, flow);

	if (number < 0)
		number = work_add_session(thread, flow);
	if (number < 0)
		return false;
	work_rewrite(frame, &thread->state->backends[number]);
	return true;
}

static __always_inline bool touch_lb(struct work_thread *thread, uint8_t *frame, uint32_t len)
{
	struct flow flow;

	return work_find_flow(frame, frame + len, &flow) && balance_flow(thread, frame, &flow);
}

static __always_inline bool touch_lbfw(struct work_thread *thread, uint8_t *frame, uint32_t len)
{
	struct flow flow;

	return work_find_flow(frame, frame + len, &flow) &&
	       flow_table_find(&thread->state->acl, &flow) < 0 &&
	       balance_flow(thread, frame, &flow);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_OBSERVE_H
#define XDPREPRO_OBSERVE_H

/* What the observer of tracepoints and the agent share. */

#include <linux/types.h>

#define OBSERVE_ERRNOS 256 /* the last is for all above, such as ENOTSUPP (524) */
#define OBSERVE_ACTIONS 8
#define OBSERVE_WORKS 128 /* packets of one NAPI poll; the last is for all above */

/*
 * Tracepoints come from everywhere in the system. What belongs to the trial is known by its
 * program, its port and its cpumap; where the kernel does not tell how to find those (no BTF), the
 * offsets are -1 and everything is counted.
 */
struct observe_knobs {
	__u32 prog_id;
	__u32 also_id; /* of the program on other CPUs; 0: there is none */
	__u32 ifindex;
	__u32 netns;  /* number of its inode */
	__u32 cpumap; /* id of the map; 0: the trial has none */
	__s32 prog_aux;
	__s32 aux_id;
	__s32 dev_ifindex;
	__s32 dev_net;
	__s32 net_inum;
	__s32 napi_dev;
};

/* The counts of one CPU. */
struct observed {
	__u64 exception[OBSERVE_ACTIONS];
	__u64 redirect_err[OBSERVE_ERRNOS];
	struct {
		__u64 calls, sent, drops;
		__u64 err[OBSERVE_ERRNOS];
	} devmap_xmit;
	struct {
		__u64 calls, processed, drops;
	} cpumap_enqueue;
	struct {
		__u64 calls, processed, drops, sched, pass, drop, redirect;
	} cpumap_kthread;
	__u64 napi_poll[OBSERVE_WORKS];
};

#endif

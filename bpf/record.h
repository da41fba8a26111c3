/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_RECORD_H
#define XDPREPRO_RECORD_H

/* What the programs and the agent share; the agent reads and writes it through memory maps. */

#include <linux/types.h>

/*
 * These make 2 MiB of records, well below KMALLOC_MAX_SIZE of x86, beyond which older kernels make
 * no map. Before 5.11 maps count against RLIMIT_MEMLOCK, which is 8 MiB where it is neither raised
 * nor may be.
 */
#define RECORD_CPUS 512
#define RECORD_RXQS 64

/* XDP_ABORTED to XDP_REDIRECT are the first five. */
#define RECORD_REFUSED 5 /* counted as XDP_REDIRECT too soon, and as what came of it */
#define RECORD_NEXT 6    /* of a program that takes turns: whose turn it is */
#define RECORD_SLOTS 8

/*
 * Of one receive queue and one CPU, which alone writes it; the adjacent-line prefetcher of x86
 * makes pairs of lines bounce together, so those of a CPU have a pair at least.
 */
struct record {
	__u64 packets[RECORD_SLOTS];
};

/* Records of each CPU, in a program for ports with one queue and in one for others. */
#define RECORDS_ONE_QUEUE 2
#define RECORDS_QUEUES RECORD_RXQS

/* .rodata of the programs that have knobs; set before loading, so the verifier sees constants. */
struct redirect_knobs {
	__u32 egress_ifindex;
};

/* How many sockets of a queue take packets in turn: a power of two, less one. */
struct spread_knobs {
	__u32 sockets_mask;
	__u32 sockets_shift;
};

#define CPUS_MAX 256

/* CPUs to hand packets to, `len` of them. */
struct cpus_knobs {
	__u32 len;
	__u32 cpus[CPUS_MAX];
};

struct generate_knobs {
	__u16 macs[6]; /* destination and source, as on the wire */
	__u16 flows;
	__u16 first_port; /* host order; flow i has source port first_port + i */
	__u32 daddr;      /* these three, as on the wire, are for programs that write them anew */
	__u16 ip_check;
	__u16 dport;
};

/* A frame is due every `step`: times in ns << PACE_SHIFT, or rates would be rounded. */
#define PACE_SHIFT 16

struct paced_knobs {
	struct generate_knobs frame;
	__u64 step;
};

/* One sender keeping time; only its own CPU writes it. */
struct pace {
	__u64 start_ns; /* 0: it has not begun; the times below are since then */
	__u64 seen;     /* when it last looked at the clock */
	__u64 next;     /* when the next frame is due */
	__u64 late;     /* the longest that one was sent after it was due */
} __attribute__((aligned(128)));

/* .bss of the program that keeps time. */
struct paced {
	struct record records[RECORD_CPUS * RECORDS_ONE_QUEUE];
	struct pace paces[RECORD_CPUS];
};

#endif

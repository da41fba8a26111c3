/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_SPEC_H
#define XDPREPRO_SPEC_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../bpf/record.h"
#include "cases.h"

#define MAX_CPUS RECORD_CPUS
#define MAX_QUEUES RECORD_RXQS

#define NO_WINDOW -1

enum attach_mode { ATTACH_NATIVE, ATTACH_SKB };
enum bind_mode { BIND_COPY, BIND_ZERO_COPY };
enum wakeup { WAKEUP_IRQ, WAKEUP_NEED_WAKEUP, WAKEUP_POLL, WAKEUP_BUSY_POLL };
enum generator_kind { GENERATOR_LIVE_FRAMES, GENERATOR_AF_PACKET };

enum pass { PASS_RATE, PASS_DIAGNOSTIC, PASS_PMU };

extern const char *const pmu_group_names[];
extern const char *const attach_mode_names[];
extern const char *const bind_mode_names[];
extern const char *const generator_names[];

enum access { ACCESS_POINTER, ACCESS_LOAD_BYTES };
enum select { SELECT_ROUND_ROBIN, SELECT_L4_HASH };
enum remote { REMOTE_NONE, REMOTE_DROP, REMOTE_PASS, REMOTE_REDIRECT };

extern const char *const remote_names[];

/* How a program comes to the data, and where it sends to; a case uses its part of it. */
struct xdp_spec {
	int access;
	bool frags;
	int fanout;
	int cpus[MAX_CPUS];
	size_t cpus_len;
	int qsize; /* packets that may wait for a CPU */
	int select;
	int remote; /* what a program on the other CPU does */
};

struct xsk_spec {
	int bind_mode;
	int wakeup;
	int queues[MAX_QUEUES];
	size_t queues_len;
	int app_cpus[MAX_CPUS];
	size_t app_cpus_len;
	int batch;
	int ring_rx;
	int ring_tx;
	int ring_fill;
	int ring_completion;
	int frames; /* of each socket */
	int frame_size;
	bool unaligned;
	bool huge_pages;
	bool shared_umem;
	int sockets; /* of each queue */
	bool frags;
	int busy_poll_us;
	int busy_poll_budget;
};

/* An application of AF_PACKET. */
struct packet_spec {
	int block_size;
	int blocks;
	int frame_size;
	int batch;
	int app_cpu;
	bool poll;      /* sleep where nothing is there, rather than spin */
	int timeout_ms; /* TPACKET_V3 */
	bool bypass;    /* send past the qdisc */
};

struct udp_spec {
	int app_cpu;
	int batch;
	int port;
};

enum ring_fill { FILL_EMPTY, FILL_HALF, FILL_FULL };
enum ring_faster { FASTER_NONE, FASTER_PRODUCER, FASTER_CONSUMER };

extern const char *const ring_fill_names[];
extern const char *const ring_faster_names[];

struct ring_spec {
	int size;
	int batch;
	int fill;
	int faster;
	int producer_cpu;
	int consumer_cpu;
};

/* What a work has no use for is 0. */
struct work_spec {
	int lines;
	int iterations;
	int acl;
	int sessions;
	int backends;   /* of each service */
	int drop_share; /* percent of the flows */
	int flows;      /* of the generator */
	int seed;
};

struct frame_spec {
	uint8_t dst_mac[6];
	uint8_t src_mac[6];
	int frame_len; /* layer 2, without FCS */
	int flows;
	bool restore; /* live frames: write all headers anew that a receiver may have changed */
};

struct generator_spec {
	int kind;
	int cpus[MAX_CPUS];
	size_t cpus_len;
	int batch;
	int64_t count;    /* 0: until told to stop */
	int64_t window;   /* its id; NO_WINDOW */
	int64_t rate_pps; /* of all threads; 0: as fast as it goes */
	int closed_loop;  /* frames on their way there and back; 0: as many as there are */
	bool promiscuous; /* what comes back has the address of another port */
	struct frame_spec frame;
};

struct spec {
	int role;
	const struct test_case *test_case; /* NULL for ROLE_GENERATE */
	char ifname[IF_NAMESIZE];          /* ROLE_RING: no port */
	char egress_ifname[IF_NAMESIZE];
	int64_t interval_ns;
	int64_t settle_ns;
	int64_t measure_ns;
	int sampler_cpu;
	int attach_mode;
	int pass;
	int pmu_group; /* with PASS_PMU */
	struct xdp_spec xdp;
	struct xsk_spec xsk;
	struct work_spec work;
	struct packet_spec packet;
	struct udp_spec udp;
	struct ring_spec ring;
	struct generator_spec generator; /* ROLE_TRANSMIT: frame, count and window of it */
};

/* Fill in a spec from its line of JSON; everything about it that can be wrong without a port is
 * checked. */
int spec_parse(const char *line, struct spec *spec);

#endif

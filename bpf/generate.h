/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_GENERATE_H
#define XDPREPRO_GENERATE_H

/* What the programs share that BPF_PROG_RUN makes live frames with. */

#include "program.h"
#include "ports.h"

#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>

/*
 * Send the frame that the program was given, in the name of a CPU. The kernel gives these programs
 * the same pages again and does not restore what the receiver wrote into them, so addresses are
 * written anew; `headers`: the fields, too, that a load balancer and a checksum change.
 */
static __always_inline int send_frame(struct xdp_md *ctx, struct record *records, __u32 cpu,
				      const volatile struct generate_knobs *knobs, _Bool headers)
{
	struct record *record = &records[(cpu & (RECORD_CPUS - 1)) * RECORDS_ONE_QUEUE];
	void *data_end = (void *)(long)ctx->data_end;
	__u16 *macs = (void *)(long)ctx->data;
	struct iphdr *ip = (void *)(long)ctx->data + ETH_HLEN;
	struct udphdr *udp = (void *)(ip + 1);

	if ((void *)(udp + 1) > data_end)
		return count_in(record, XDP_ABORTED);
	for (int i = 0; i < 6; i++)
		macs[i] = knobs->macs[i];
	if (headers) {
		ip->daddr = knobs->daddr;
		ip->check = knobs->ip_check;
		udp->dest = knobs->dport;
		udp->check = 0;
	}
	if (knobs->flows > 1)
		udp->source = bpf_htons(knobs->first_port +
					(__u32)record->packets[XDP_REDIRECT] % knobs->flows);
	return count_in(record, bpf_redirect_map(&ports, 0, XDP_ABORTED));
}

#endif

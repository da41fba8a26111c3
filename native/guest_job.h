/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_GUEST_JOB_H
#define XDPREPRO_GUEST_JOB_H

#include <jansson.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

enum side { SIDE_DUT, SIDE_TESTER, SIDES };
enum guest_channel { CHANNEL_VIRTIO_SERIAL, CHANNEL_SERIAL };
enum guest_port {
	PORT_VETH,
	PORT_IGB,
	PORT_VIRTIO_NET,
	PORT_VIRTIO_NET_DMA,
	PORT_VMXNET3,
	PORT_E1000E,
};

extern const char *const side_names[];
extern const char *const guest_port_names[];

struct guest_end {
	char ifname[IF_NAMESIZE];
	uint8_t mac[6];
};

/* What the micro guest is to do (docs/protocol.md); it lives as long as the guest. */
struct guest_job {
	json_t *object;
	int channel;
	json_t *modules;
	int port;
	struct guest_end ends[SIDES];
	int queues;
	int mtu;
	json_t *sysctls;
	bool count;
	bool probe;
	json_t *probes[SIDES]; /* what the ends answered; NULL until then, or if not asked */
	json_t *trials;
};

/*
 * A trial; its specs are for agents to check, and the JSON stays the job's. `testers` are those
 * that the tester may have, the best first; specs[SIDE_TESTER] is the one taken.
 */
struct guest_trial {
	int slot;
	json_t *testers;
	json_t *specs[SIDES];
};

/* As much as it takes to open the channel, on which the rest can be found wrong. */
int guest_job_read(const char *path, struct guest_job *job);

int guest_job_check(struct guest_job *job);

/* Cannot fail: guest_job_check() has looked at every trial. */
struct guest_trial guest_job_trial(const struct guest_job *job, size_t i);

#endif

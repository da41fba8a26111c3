/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_PACKET_APP_H
#define XDPREPRO_PACKET_APP_H

#include <pthread.h>
#include <semaphore.h>

#include "app.h"
#include "packet_receive.h"

/* Written by the application's thread only. */
struct packet_counters {
	uint64_t rx_packets;
	uint64_t rx_bytes;
	uint64_t tx_packets; /* what the kernel gave back as sent */
	uint64_t tx_drops;   /* frames too long to be sent, by slot or port */
	uint64_t tx_errors;  /* frames that the port refused; they stay, and are sent again */
	uint64_t tx_fails;   /* calls that failed for another reason, such as a link that is down */
	uint64_t empty_polls;
	uint64_t wakeups;
} __attribute__((aligned(128)));

struct packet_app {
	struct packet_counters counters;
	struct packet_counters taken; /* by the sampler */
	struct packet_receiver receiver;
	struct packet_sender sender;
	struct packet_statistics statistics;
	const struct packet_spec *spec;
	const struct generator_spec *frames; /* to transmit */
	const struct packet_variant *variant;
	uint32_t longest; /* frame that can be sent */
	pthread_t thread;
	sem_t go;
	int ended_fd;
	bool started;
	bool stop;
};

/* The loops; each is the body of the application's thread. */
void packet_rxdrop_v2(struct packet_app *app);
void packet_rxdrop_v3(struct packet_app *app);
void packet_l2fwd_v2(struct packet_app *app);
void packet_l2fwd_v3(struct packet_app *app);
void packet_txonly_v2(struct packet_app *app);
void packet_txonly_v3(struct packet_app *app);

extern const struct app_ops packet_ops;
extern const struct app_ops packet_send_ops; /* of the role `transmit` */

#endif

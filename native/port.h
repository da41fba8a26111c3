/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_PORT_H
#define XDPREPRO_PORT_H

#include "attach.h"
#include "link.h"
#include "load.h"
#include "programs.h"
#include "records.h"
#include "sample.h"
#include "work.h"

/* An interface, and our program on it if the case has one. */
struct port {
	struct link link;
	struct loaded program;
	struct attachment attachment;
	struct records records;
	struct records remote;   /* of its packets on other CPUs */
	struct work_state *work; /* what is done with its packets; NULL: nothing */
};

/* Load only: maps can be filled before packets come. Without a program (NULL) it is the port alone.
 */
int port_create(struct port *port, const char *ifname, const struct program *program,
		const struct load_options *options);
void port_destroy(struct port *port);

int port_attach(struct port *port, int attach_mode);

/* A program for one receive queue would count those of a second one in its place. */
int port_verify_queues(const struct port *port);

/* Wait until it has carrier: drivers lose it when a program or a socket comes. */
int port_wait_for_carrier(const struct port *port);

/* The sources that every port has, the program's records first. */
int port_add_sources(struct port *port, struct sampler *sampler);

/* One more than the highest number of a CPU that may come: records have so many. */
int port_cpu_numbers(unsigned int *cpus);

/* Queues in use, as ethtool reports channels; those allocated where it does not. */
unsigned int port_rx_queues(const struct link *link);
unsigned int port_tx_queues(const struct link *link);

#endif

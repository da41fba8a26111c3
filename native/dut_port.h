/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_DUT_PORT_H
#define XDPREPRO_DUT_PORT_H

#include "link.h"
#include "port.h"
#include "spec.h"

/* The port with the program of the case, loaded as the spec says; `egress` is where it sends to. */
int dut_port_create(struct port *port, struct link *egress, const struct spec *spec);

#endif

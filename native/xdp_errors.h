/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_XDP_ERRORS_H
#define XDPREPRO_XDP_ERRORS_H

#include "port.h"
#include "sample.h"

/* Programs at the XDP tracepoints that count what went wrong, and at that of NAPI's polls. */
struct xdp_errors;

/* NULL after fail(). A tracepoint that this kernel lacks is absent in the sampler. */
struct xdp_errors *xdp_errors_create(const struct port *port, struct sampler *sampler);
void xdp_errors_destroy(struct xdp_errors *errors);

/* The tracepoints that are attached. */
json_t *xdp_errors_describe(const struct xdp_errors *errors);

#endif

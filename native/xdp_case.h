/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_XDP_CASE_H
#define XDPREPRO_XDP_CASE_H

#include <jansson.h>

#include "link.h"
#include "load.h"
#include "spec.h"

/* What the section `xdp` of a spec makes of a case: which program, and how it is loaded. */
struct xdp_case {
	struct program program;
	char program_name[64];
	char remote_name[32];
	struct cpus_knobs cpus;
};

/* Of a case with the section; `options` then refers to the first argument and to the spec. */
void xdp_case_choose(struct xdp_case *xdp_case, const struct spec *spec,
		     struct load_options *options);

/* Fill the maps of a program that is loaded, and see whether the kernel can do with them what it is
 * asked. */
int xdp_case_fill_maps(const struct loaded *loaded, const struct spec *spec,
		       const struct link *egress);

/* Add to the `ready` message where packets are sent, read back from the maps. */
int xdp_case_describe(const struct loaded *loaded, const struct spec *spec, json_t *ready);

#endif

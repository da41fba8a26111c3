/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_SPEC_SECTION_H
#define XDPREPRO_SPEC_SECTION_H

#include "spec.h"
#include "spec_value.h"

/* The sections of a spec, each parsed in a file of its own. The argument is the whole spec, so that
 * a section may be absent. */
int parse_pass(const struct section *top, struct spec *spec);
int parse_xdp(const struct section *top, struct spec *spec);
int parse_xsk(const struct section *top, struct spec *spec);
int parse_work(const struct section *top, struct spec *spec);
int parse_packet(const struct section *top, struct spec *spec);
int parse_udp(const struct section *top, struct spec *spec);
int parse_ring(const struct section *top, struct spec *spec);

/* What is sent: `frame`, `count` and `window`; for generators and for cases that transmit. */
int parse_sending(const struct section *top, struct generator_spec *generator);

/* All of `generate` but the common keys. */
int parse_generator(const struct section *top, struct generator_spec *generator);

#endif

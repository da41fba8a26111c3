/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_CACHES_H
#define XDPREPRO_CACHES_H

#include <jansson.h>

/*
 * Bytes of the data caches that the first allowed CPU sees, as the protocol's `caches`: `l1_bytes`,
 * `l2_bytes` and `llc_bytes`, the last the largest level. What the kernel does not tell is missing.
 */
json_t *describe_caches(void);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_MEMORY_H
#define XDPREPRO_MEMORY_H

#include <stdlib.h>

/* Memory of the host; what does not fit ends QEMU, because a count without it would be wrong. */
void *memory_get(size_t len, size_t size);
void *memory_grow(void *memory, size_t len, size_t size);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_PAGES_H
#define XDPREPRO_PAGES_H

#include <stddef.h>

/* Memory of zeros that is there already, on huge pages where the kernel has some; NULL and errno.
 */
void *pages_create(size_t size);
void pages_destroy(void *pages, size_t size);

/* How much of it is on huge pages, in KiB; -1 if the kernel does not tell. */
long pages_huge_kib(const void *pages);

#endif

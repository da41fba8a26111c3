/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_PAGES_H
#define XDPREPRO_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Memory of zeros that is there already, on huge pages where the kernel has some; NULL and errno.
 */
void *pages_create(size_t size);
void pages_destroy(void *pages, size_t size);

/* How much memory there is without swapping; false: the kernel does not tell. */
bool pages_available_kib(size_t *kib);

/* How much of it is on huge pages, in KiB; -1 if the kernel does not tell. */
long pages_huge_kib(const void *pages);

#endif

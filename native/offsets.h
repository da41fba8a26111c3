/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_OFFSETS_H
#define XDPREPRO_OFFSETS_H

#include <bpf/btf.h>

/* Where a member of a kernel structure is, in bytes; -1: BTF does not know it. */
int find_offset(const struct btf *btf, const char *structure, const char *member);

#endif

// SPDX-License-Identifier: GPL-2.0-or-later
#include "offsets.h"

#include <string.h>

/* Kernels group members in structures and unions without a name, so those are searched as well. */
static int find_bits(const struct btf *btf, const struct btf_type *type, const char *member)
{
	const struct btf_member *members = btf_members(type);

	for (int i = 0; i < btf_vlen(type); i++) {
		const char *name = btf__name_by_offset(btf, members[i].name_off);
		const struct btf_type *inner = btf__type_by_id(btf, members[i].type);
		int bits = btf_member_bit_offset(type, i);

		if (!strcmp(name, member))
			return bits;
		if (name[0] || !btf_is_composite(inner))
			continue;
		if (find_bits(btf, inner, member) >= 0)
			return bits + find_bits(btf, inner, member);
	}
	return -1;
}

int find_offset(const struct btf *btf, const char *structure, const char *member)
{
	int id = btf__find_by_name_kind(btf, structure, BTF_KIND_STRUCT);
	int bits = id < 0 ? -1 : find_bits(btf, btf__type_by_id(btf, id), member);

	return bits < 0 ? -1 : bits / 8;
}

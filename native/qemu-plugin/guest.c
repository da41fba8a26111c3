// SPDX-License-Identifier: GPL-2.0-or-later
#include "guest.h"

#include <string.h>

#include "qemu.h"

#define CHUNK_BYTES (1 << 20)

/* The System V calling convention. */
static const char *const names[REGISTERS_LEN] = {
	[REGISTER_ARGUMENT_1] = "rdi", [REGISTER_ARGUMENT_2] = "rsi", [REGISTER_STACK] = "rsp"};

static struct qemu_plugin_register *handles[REGISTERS_LEN];
static struct glib_array *bytes;

bool guest_find_registers(void)
{
	struct glib_array *list = qemu_plugin_get_registers();
	const struct qemu_register_description *all = list->data;
	unsigned int found = 0;

	for (unsigned int i = 0; i < list->len; i++)
		for (unsigned int j = 0; j < REGISTERS_LEN; j++)
			if (!strcmp(all[i].name, names[j])) {
				handles[j] = all[i].handle;
				found++;
			}
	g_array_free(list, true);
	if (!bytes)
		bytes = g_byte_array_new();
	return found == REGISTERS_LEN;
}

bool guest_register(enum guest_register which, uint64_t *value)
{
	g_byte_array_set_size(bytes, 0);
	if (qemu_plugin_read_register(handles[which], bytes) != sizeof(*value))
		return false;
	memcpy(value, bytes->data, sizeof(*value));
	return true;
}

bool guest_read(uint64_t address, void *data, size_t len)
{
	while (len) {
		size_t chunk = len < CHUNK_BYTES ? len : CHUNK_BYTES;

		if (!qemu_plugin_read_memory_vaddr(address, bytes, chunk))
			return false;
		memcpy(data, bytes->data, chunk);
		address += chunk;
		data = (char *)data + chunk;
		len -= chunk;
	}
	return true;
}

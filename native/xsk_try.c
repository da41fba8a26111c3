// SPDX-License-Identifier: GPL-2.0-or-later
#include "xsk.h"

int xsk_try(const char *ifname, const struct xsk_spec *spec)
{
	struct xsk_queue queue = {.queue_id = 0, .fd = -1};
	json_t *object = NULL;
	struct umem umem;
	struct xsk xsk;
	int result = umem_create(&umem, spec, ifname, 1);

	queue.umem = &umem;
	if (!result)
		result = xsk_create(&xsk, ifname, &queue, 0, false, spec);
	if (result)
		goto destroy;
	result = xsk_verify(&xsk, spec, &object);
	json_decref(object);
	xsk_destroy(&xsk);
destroy:
	umem_destroy(&umem);
	return result;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* AF_XDP applications that do a work with each packet. */
#include "xsk_work.h"

#include "work_touch.h"
#include "xsk_loop.h"

static int create(const struct spec *spec, struct port *port, const struct xsk_loop *loop,
		  struct app **app)
{
	int result = xsk_app_create(spec, port, loop, app);
	struct xsk_app *own = (struct xsk_app *)*app;

	for (size_t i = 0; !result && i < own->len; i++) {
		own->sockets[i].work = work_add_thread(port->work);
		if (own->sockets[i].work)
			continue;
		result = fail_result();
		xsk_app_destroy(*app);
	}
	return result;
}

#define WORK_APP(NAME, OP, SENDS, TOUCH)                                                        \
	static __always_inline bool NAME##_touch(struct xsk *xsk, uint8_t *frame, uint32_t len) \
	{                                                                                       \
		return TOUCH(xsk->work, frame, len) &&                                          \
		       (!(SENDS) || xsk_swap_macs(xsk, frame, len));                            \
	}                                                                                       \
	XSK_LOOP(NAME##_loop, xsk_serve_##OP, SENDS, NAME##_touch);                             \
	static int NAME##_create(const struct spec *spec, struct port *port, struct app **app)  \
	{                                                                                       \
		return create(spec, port, &NAME##_loop, app);                                   \
	}                                                                                       \
	const struct app_ops NAME = {                                                           \
		.create = NAME##_create,                                                        \
		.start = xsk_app_start,                                                         \
		.describe = xsk_app_describe,                                                   \
		.add_sources = xsk_app_add_sources,                                             \
		.destroy = xsk_app_destroy,                                                     \
	}

WORK_APP(xsk_rxdrop_mem, rxdrop, false, touch_mem);
WORK_APP(xsk_rxdrop_csum, rxdrop, false, touch_csum);
WORK_APP(xsk_rxdrop_fw, rxdrop, false, touch_fw);
WORK_APP(xsk_l2fwd_mem, l2fwd, true, touch_mem);
WORK_APP(xsk_l2fwd_csum, l2fwd, true, touch_csum);
WORK_APP(xsk_l2fwd_lb, l2fwd, true, touch_lb);
WORK_APP(xsk_l2fwd_lbfw, l2fwd, true, touch_lbfw);

// SPDX-License-Identifier: GPL-2.0-or-later
/* What AF_PACKET applications do, made for each version of the ring. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "frame.h"
#include "packet_app.h"
#include "window.h"

#define POLL_MS 50 /* how long a stop may have to wait */
#define FULL_MS 20
#define SHORT_MS 1                /* while frames are with the kernel */
#define GIVE_UP_NS (1 * NS_PER_S) /* for a port that takes no more, after a stop */

typedef uint32_t (*packet_take)(struct packet_receiver *receiver, uint32_t batch,
				packet_handle handle, void *context);

/* Add to a counter of our own thread that others read. */
static inline void add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static inline bool stopping(const struct packet_app *app)
{
	return __atomic_load_n(&app->stop, __ATOMIC_RELAXED);
}

static void wait_for(struct packet_app *app, int fd, short events, int ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = events};

	if (app->spec->poll) {
		poll(&poll_fd, 1, ms);
		add(&app->counters.wakeups, 1);
	} else {
		add(&app->counters.empty_polls, 1);
	}
}

PACKET_INLINE void ignore(void *context, const uint8_t *frame, uint32_t snaplen, uint32_t len)
{
	(void)context;
	(void)frame;
	(void)snaplen;
	(void)len;
}

static inline void count_received(struct packet_app *app, uint32_t n)
{
	add(&app->counters.rx_packets, n);
	add(&app->counters.rx_bytes, app->receiver.bytes);
}

PACKET_INLINE void rxdrop(struct packet_app *app, packet_take take)
{
	while (!stopping(app)) {
		uint32_t n = take(&app->receiver, app->spec->batch, ignore, NULL);

		window_app();
		if (n)
			count_received(app, n);
		else
			wait_for(app, app->receiver.socket.fd, POLLIN, POLL_MS);
	}
}

PACKET_INLINE void forward(struct packet_app *app, const uint8_t *frame, uint32_t snaplen,
			   uint32_t len, int version)
{
	uint8_t *to;

	if (snaplen < len || len > app->longest) {
		add(&app->counters.tx_drops, 1);
		return;
	}
	to = packet_next(&app->sender, version);
	memcpy(to, frame + ETH_ALEN, ETH_ALEN);
	memcpy(to + ETH_ALEN, frame, ETH_ALEN);
	memcpy(to + 2 * ETH_ALEN, frame + 2 * ETH_ALEN, len - 2 * ETH_ALEN);
	packet_hand_over(&app->sender, len, version);
}

PACKET_INLINE void forward_v2(void *app, const uint8_t *frame, uint32_t snaplen, uint32_t len)
{
	forward(app, frame, snaplen, len, TPACKET_V2);
}

PACKET_INLINE void forward_v3(void *app, const uint8_t *frame, uint32_t snaplen, uint32_t len)
{
	forward(app, frame, snaplen, len, TPACKET_V3);
}

/* Frames that are not sent now stay in their slots: there was no memory, or no room at the port. */
static void kick(struct packet_app *app)
{
	if (send(app->sender.socket.fd, NULL, 0, MSG_DONTWAIT) >= 0 || errno == EAGAIN ||
	    errno == EINTR)
		return;
	add(errno == ENOBUFS ? &app->counters.tx_errors : &app->counters.tx_fails, 1);
}

/* Send what is not sent, and take back what was; how many frames that were. */
PACKET_INLINE uint32_t serve_sender(struct packet_app *app, int version)
{
	uint32_t n;

	if (packet_unsent(&app->sender, version))
		kick(app);
	n = packet_take_back(&app->sender, version);
	if (n)
		add(&app->counters.tx_packets, n);
	return n;
}

PACKET_INLINE void l2fwd(struct packet_app *app, packet_take take, packet_handle handle,
			 int version)
{
	while (!stopping(app)) {
		uint32_t batch = app->spec->batch, room = packet_room(&app->sender);
		uint32_t n = take(&app->receiver, room < batch ? room : batch, handle, app);

		window_app();
		if (n)
			count_received(app, n);
		if (!serve_sender(app, version) && !n)
			wait_for(app, app->receiver.socket.fd, POLLIN,
				 app->sender.held ? SHORT_MS : POLL_MS);
	}
}

PACKET_INLINE void hand_over_batch(struct packet_app *app, uint64_t left, uint64_t *flow,
				   int version)
{
	const struct frame_spec *frame = &app->frames->frame;
	uint32_t n = packet_room(&app->sender);

	if (n > (uint32_t)app->spec->batch)
		n = app->spec->batch;
	if (n > left)
		n = left;
	for (; n; n--) {
		uint16_t port = htons(FRAME_FIRST_PORT + *flow);

		memcpy(packet_next(&app->sender, version) + FRAME_SPORT_OFFSET, &port,
		       sizeof(port));
		packet_hand_over(&app->sender, frame->frame_len, version);
		if (++*flow == (uint64_t)frame->flows)
			*flow = 0;
	}
}

/* Frames that were handed over are sent, also after a stop, unless the port takes no more. */
PACKET_INLINE void txonly(struct packet_app *app, int version)
{
	uint64_t left = app->frames->count ? (uint64_t)app->frames->count : UINT64_MAX;
	uint64_t flow = 0;
	int64_t give_up_ns = 0;

	for (;;) {
		uint32_t held = app->sender.held;

		if (stopping(app))
			left = 0;
		if (left)
			hand_over_batch(app, left, &flow, version);
		left -= app->sender.held - held;
		if (!app->sender.held)
			return;
		if (serve_sender(app, version)) {
			give_up_ns = 0;
			continue;
		}
		if (!left && !give_up_ns)
			give_up_ns = now_ns() + GIVE_UP_NS;
		if (!left && now_ns() > give_up_ns)
			return;
		if (!left || !packet_room(&app->sender))
			wait_for(app, app->sender.socket.fd, POLLOUT, left ? FULL_MS : SHORT_MS);
	}
}

void packet_rxdrop_v2(struct packet_app *app)
{
	rxdrop(app, packet_take_v2);
}

void packet_rxdrop_v3(struct packet_app *app)
{
	rxdrop(app, packet_take_v3);
}

void packet_l2fwd_v2(struct packet_app *app)
{
	l2fwd(app, packet_take_v2, forward_v2, TPACKET_V2);
}

void packet_l2fwd_v3(struct packet_app *app)
{
	l2fwd(app, packet_take_v3, forward_v3, TPACKET_V3);
}

void packet_txonly_v2(struct packet_app *app)
{
	txonly(app, TPACKET_V2);
}

void packet_txonly_v3(struct packet_app *app)
{
	txonly(app, TPACKET_V3);
}

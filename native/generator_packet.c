// SPDX-License-Identifier: GPL-2.0-or-later
/* Frames from a TPACKET_V2 transmit ring, past the qdisc. */
#include "generator.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "frame.h"
#include "packet_ring.h"

#define SLOTS 512
#define SLOT_SIZE 4096 /* holds a frame of the usual MTU and its header, and divides a block */
#define SLOT_SIZE_JUMBO 16384 /* holds any */
#define BLOCK_SIZE 65536
#define DATA_OFFSET (TPACKET2_HDRLEN - sizeof(struct sockaddr_ll))
#define WAIT_MS 20
#define GIVE_UP_NS (2 * NS_PER_S) /* for a port that takes no more, after a stop */

struct packet_ring {
	int fd;
	uint8_t *slots;
	size_t slot_size;
	uint64_t head; /* slots given to the kernel so far */
	uint64_t tail; /* of these, taken back */
};

static struct tpacket2_hdr *slot_header(const struct packet_ring *ring, uint64_t i)
{
	return (struct tpacket2_hdr *)(ring->slots + (i % SLOTS) * ring->slot_size);
}

static uint8_t *slot_frame(const struct packet_ring *ring, uint64_t i)
{
	return ring->slots + (i % SLOTS) * ring->slot_size + DATA_OFFSET;
}

static uint32_t slot_status(const struct packet_ring *ring, uint64_t i)
{
	return __atomic_load_n(&slot_header(ring, i)->tp_status, __ATOMIC_ACQUIRE);
}

static int set_option(const char *ifname, int fd, int option, const char *step, const void *value,
		      socklen_t len)
{
	return setsockopt(fd, SOL_PACKET, option, value, len) ? fail(errno, ifname, step) : 0;
}

static int set_up(const char *ifname, int ifindex, int fd, size_t slot_size)
{
	/* Protocol 0: this socket receives nothing, so it costs the receive path nothing. */
	struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = ifindex};
	struct tpacket_req request = {
		.tp_block_size = BLOCK_SIZE,
		.tp_block_nr = SLOTS * slot_size / BLOCK_SIZE,
		.tp_frame_size = slot_size,
		.tp_frame_nr = SLOTS,
	};
	int version = TPACKET_V2, one = 1;
	int result =
		set_option(ifname, fd, PACKET_VERSION, "PACKET_VERSION", &version, sizeof(version));

	if (!result)
		result = set_option(ifname, fd, PACKET_QDISC_BYPASS, "PACKET_QDISC_BYPASS", &one,
				    sizeof(one));
	if (!result)
		result = set_option(ifname, fd, PACKET_TX_RING, "PACKET_TX_RING", &request,
				    sizeof(request));
	if (!result && bind(fd, (struct sockaddr *)&address, sizeof(address)))
		result = fail(errno, ifname, "bind packet socket");
	return result;
}

struct packet_ring *packet_ring_create(const char *ifname, int ifindex, int frame_len)
{
	struct packet_ring *ring = calloc(1, sizeof(*ring));

	if (!ring) {
		fail(ENOMEM, ifname, "packet ring");
		return NULL;
	}
	ring->slot_size = DATA_OFFSET + frame_len <= SLOT_SIZE ? SLOT_SIZE : SLOT_SIZE_JUMBO;
	ring->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (ring->fd < 0) {
		fail(errno, ifname, "packet socket");
		goto free_ring;
	}
	if (set_up(ifname, ifindex, ring->fd, ring->slot_size))
		goto close_fd;
	ring->slots = mmap(NULL, SLOTS * ring->slot_size, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_POPULATE, ring->fd, 0);
	if (ring->slots == MAP_FAILED) {
		fail(errno, ifname, "map packet ring");
		goto close_fd;
	}
	return ring;
close_fd:
	close(ring->fd);
free_ring:
	free(ring);
	return NULL;
}

void packet_ring_destroy(struct packet_ring *ring)
{
	if (!ring)
		return;
	munmap(ring->slots, SLOTS * ring->slot_size);
	close(ring->fd);
	free(ring);
}

/* Take back what the kernel is done with. */
static int take_back(struct generator_thread *thread, struct packet_ring *ring)
{
	uint64_t frame_len = thread->generator->spec->frame.frame_len;

	for (; ring->tail != ring->head; ring->tail++) {
		uint32_t status = slot_status(ring, ring->tail);

		if (status & TP_STATUS_WRONG_FORMAT)
			return fail_because(EINVAL, thread->generator->ifname, "send",
					    "the kernel refuses frames of %llu bytes",
					    (unsigned long long)frame_len);
		if (status != TP_STATUS_AVAILABLE)
			break;
		sent_add(&thread->sent.packets, 1);
		sent_add(&thread->sent.bytes, frame_len);
	}
	return 0;
}

/* How many frames may have been handed over by now. */
static uint64_t find_due(struct generator_thread *thread, const struct packet_ring *ring)
{
	const struct generator *generator = thread->generator;

	if (generator->step)
		return pace_due(&thread->pace, generator->step, ring->head);
	if (generator->spec->closed_loop)
		return closed_loop_due(&thread->loop, ring->head);
	return thread->share;
}

static void hand_over(struct generator_thread *thread, struct packet_ring *ring)
{
	const struct generator_spec *spec = thread->generator->spec;
	uint64_t end = ring->head + spec->batch;
	uint64_t due = find_due(thread, ring);

	if (end > due)
		end = due;
	if (end > ring->tail + SLOTS)
		end = ring->tail + SLOTS;
	if (end > thread->share)
		end = thread->share;
	for (; ring->head < end; ring->head++) {
		struct tpacket2_hdr *header = slot_header(ring, ring->head);
		uint16_t port = htons(FRAME_FIRST_PORT + ring->head % spec->frame.flows);

		memcpy(slot_frame(ring, ring->head) + FRAME_SPORT_OFFSET, &port, sizeof(port));
		header->tp_len = spec->frame.frame_len;
		__atomic_store_n(&header->tp_status, TP_STATUS_SEND_REQUEST, __ATOMIC_RELEASE);
	}
}

/* The kernel sends what it can; a frame that the port does not take now stays in its slot. */
static int kick(struct generator_thread *thread, struct packet_ring *ring)
{
	if (send(ring->fd, NULL, 0, MSG_DONTWAIT) >= 0 || errno == EAGAIN || errno == EINTR)
		return 0;
	if (errno != ENOBUFS)
		return fail(errno, thread->generator->ifname, "send");
	sent_add(&thread->sent.errors, 1);
	return 0;
}

static void wait_for_slots(struct packet_ring *ring)
{
	struct pollfd fd = {.fd = ring->fd, .events = POLLOUT};

	poll(&fd, 1, WAIT_MS);
}

/* Let the kernel send what it was handed; wait where it takes no more. */
static int send_handed(struct generator_thread *thread, struct packet_ring *ring)
{
	uint64_t tail = ring->tail;
	int result = kick(thread, ring);

	if (!result)
		result = take_back(thread, ring);
	if (!result && ring->tail == tail)
		wait_for_slots(ring);
	return result;
}

/* A port that takes nothing must not hold a stop for ever. */
static int check_stop(const struct generator_thread *thread, const struct packet_ring *ring,
		      int64_t *give_up_ns)
{
	if (!*give_up_ns)
		*give_up_ns = now_ns() + GIVE_UP_NS;
	if (now_ns() < *give_up_ns)
		return 0;
	return fail_because(ETIMEDOUT, thread->generator->ifname, "send",
			    "the port did not take %llu frames within %lld s of the stop",
			    (unsigned long long)(ring->head - ring->tail), GIVE_UP_NS / NS_PER_S);
}

/*
 * Frames that were handed over are sent, also after a stop: until then the kernel owns the slots.
 * Where none is due it spins, as a sleep would be longer than the time to the next one.
 */
static int send_frames(struct generator_thread *thread)
{
	const struct generator *generator = thread->generator;
	struct packet_ring *ring = thread->state;
	int64_t give_up_ns = 0;
	int result = 0;

	for (uint64_t i = 0; i < SLOTS; i++)
		frame_fill(&generator->spec->frame, slot_frame(ring, i));
	while (!result) {
		bool stopping = generator_stopping(generator);

		if (!stopping)
			hand_over(thread, ring);
		if (ring->tail != ring->head)
			result = send_handed(thread, ring);
		else if (stopping || ring->head == thread->share)
			break;
		if (!result && stopping && ring->tail != ring->head)
			result = check_stop(thread, ring, &give_up_ns);
	}
	return result;
}

static void read_sent(const struct generator_thread *thread, struct sent *sent)
{
	sent->packets = __atomic_load_n(&thread->sent.packets, __ATOMIC_RELAXED);
	sent->bytes = __atomic_load_n(&thread->sent.bytes, __ATOMIC_RELAXED);
	sent->errors = __atomic_load_n(&thread->sent.errors, __ATOMIC_RELAXED);
}

static void destroy(struct generator *generator)
{
	for (size_t i = 0; i < generator->threads_len; i++)
		packet_ring_destroy(generator->threads[i].state);
}

static int create(struct generator *generator)
{
	for (size_t i = 0; i < generator->threads_len; i++) {
		struct packet_ring *ring = packet_ring_create(generator->ifname, generator->ifindex,
							      generator->spec->frame.frame_len);

		generator->threads[i].state = ring;
		if (generator->step)
			generator->threads[i].paced = &generator->threads[i].pace;
		if (!ring) {
			destroy(generator);
			return fail_result();
		}
	}
	return 0;
}

const struct generator_ops generator_packet_ops = {create, destroy, send_frames, read_sent};

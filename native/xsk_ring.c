// SPDX-License-Identifier: GPL-2.0-or-later
#include "xsk_ring.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "error.h"

static const struct {
	const char *step;
	int option;
	size_t entry_size;
	size_t offsets; /* within struct xdp_mmap_offsets */
	unsigned long long page_offset;
} kinds[] = {
	[XSK_RX] = {"RX ring", XDP_RX_RING, sizeof(struct xdp_desc),
		    offsetof(struct xdp_mmap_offsets, rx), XDP_PGOFF_RX_RING},
	[XSK_TX] = {"TX ring", XDP_TX_RING, sizeof(struct xdp_desc),
		    offsetof(struct xdp_mmap_offsets, tx), XDP_PGOFF_TX_RING},
	[XSK_FILL] = {"fill ring", XDP_UMEM_FILL_RING, sizeof(uint64_t),
		      offsetof(struct xdp_mmap_offsets, fr), XDP_UMEM_PGOFF_FILL_RING},
	[XSK_COMPLETION] = {"completion ring", XDP_UMEM_COMPLETION_RING, sizeof(uint64_t),
			    offsetof(struct xdp_mmap_offsets, cr), XDP_UMEM_PGOFF_COMPLETION_RING},
};

/* What both kinds of libxdp's rings have. */
struct ring {
	uint32_t *producer;
	uint32_t *consumer;
	uint32_t *flags;
	void *entries;
};

static int map(struct xsk_mapping *mapping, int fd, enum xsk_ring_kind kind, size_t size,
	       const char *name)
{
	mapping->size = size;
	mapping->area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
			     kinds[kind].page_offset);
	if (mapping->area != MAP_FAILED)
		return 0;
	mapping->area = NULL;
	return fail(errno, name, kinds[kind].step);
}

static int create(struct ring *ring, struct xsk_mapping *mapping, int fd, enum xsk_ring_kind kind,
		  int size, const char *name)
{
	struct xdp_mmap_offsets all;
	const struct xdp_ring_offset *at = (void *)((char *)&all + kinds[kind].offsets);
	socklen_t len = sizeof(all);
	int result;

	if (setsockopt(fd, SOL_XDP, kinds[kind].option, &size, sizeof(size)) ||
	    getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &all, &len))
		return fail(errno, name, kinds[kind].step);
	result = map(mapping, fd, kind, at->desc + size * kinds[kind].entry_size, name);
	if (result)
		return result;
	ring->producer = mapping->area + at->producer;
	ring->consumer = mapping->area + at->consumer;
	ring->flags = mapping->area + at->flags;
	ring->entries = mapping->area + at->desc;
	return 0;
}

int xsk_ring_create_prod(struct xsk_ring_prod *ring, struct xsk_mapping *mapping, int fd,
			 enum xsk_ring_kind kind, int size, const char *name)
{
	struct ring made;
	int result = create(&made, mapping, fd, kind, size, name);

	if (result)
		return result;
	*ring = (struct xsk_ring_prod){
		.cached_prod = *made.producer,
		/* libxdp keeps it ahead by the size, so that what is free is a difference. */
		.cached_cons = *made.consumer + size,
		.mask = size - 1,
		.size = size,
		.producer = made.producer,
		.consumer = made.consumer,
		.ring = made.entries,
		.flags = made.flags,
	};
	return 0;
}

int xsk_ring_create_cons(struct xsk_ring_cons *ring, struct xsk_mapping *mapping, int fd,
			 enum xsk_ring_kind kind, int size, const char *name)
{
	struct ring made;
	int result = create(&made, mapping, fd, kind, size, name);

	if (result)
		return result;
	*ring = (struct xsk_ring_cons){
		.cached_prod = *made.producer,
		.cached_cons = *made.consumer,
		.mask = size - 1,
		.size = size,
		.producer = made.producer,
		.consumer = made.consumer,
		.ring = made.entries,
		.flags = made.flags,
	};
	return 0;
}

void xsk_ring_unmap(struct xsk_mapping *mapping)
{
	if (mapping->area)
		munmap(mapping->area, mapping->size);
	mapping->area = NULL;
}

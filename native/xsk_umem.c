// SPDX-License-Identifier: GPL-2.0-or-later
#include "xsk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "error.h"
#include "load.h"

#define MEMINFO "/proc/meminfo"

static size_t round_up(size_t size, size_t unit)
{
	return (size + unit - 1) / unit * unit;
}

static int read_huge_page_size(size_t *size)
{
	FILE *file = fopen(MEMINFO, "re");
	char line[128];
	size_t kib = 0;

	if (!file)
		return fail(errno, MEMINFO, "open");
	while (!kib && fgets(line, sizeof(line), file))
		sscanf(line, "Hugepagesize: %zu kB", &kib);
	fclose(file);
	*size = kib * 1024;
	return kib ? 0 : fail_because(0, MEMINFO, "read", "this kernel has no huge pages");
}

static int map(struct umem *umem, const char *name, int flags)
{
	umem->area = mmap(NULL, umem->mapped_size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
	if (umem->area != MAP_FAILED)
		return 0;
	umem->area = NULL;
	return fail(errno, name, "allocate UMEM");
}

static int map_huge(struct umem *umem, const char *name)
{
	size_t page_size;
	int result = read_huge_page_size(&page_size);

	if (result)
		return result;
	umem->mapped_size = round_up(umem->area_size, page_size);
	result = map(umem, name, MAP_HUGETLB | MAP_POPULATE);
	if (result == -ENOMEM)
		fail_hint(result,
			  "%zu free huge pages of %zu KiB are needed: sysctl -w "
			  "vm.nr_hugepages=%zu",
			  umem->mapped_size / page_size, page_size / 1024,
			  umem->mapped_size / page_size);
	return result;
}

int umem_create(struct umem *umem, const struct xsk_spec *spec, const char *name, size_t sockets)
{
	*umem = (struct umem){.fd = -1, .area_size = sockets * spec->frames * spec->frame_size};
	umem->mapped_size = umem->area_size;
	return spec->huge_pages ? map_huge(umem, name) : map(umem, name, 0);
}

void umem_destroy(struct umem *umem)
{
	if (umem->area)
		munmap(umem->area, umem->mapped_size);
	umem->area = NULL;
}

static int fail_register(int err, const struct umem *umem, const char *name)
{
	int result = fail(err, name, "register UMEM");

	if (err == ENOBUFS || err == ENOMEM)
		fail_hint(result,
			  "%zu KiB are asked for, and RLIMIT_MEMLOCK is %llu KiB: raise it with "
			  "'ulimit -l', run with CAP_IPC_LOCK, or set fewer frames",
			  umem->area_size / 1024, load_memlock_kib());
	return result;
}

int umem_register(struct umem *umem, const struct xsk_spec *spec, const char *name, int fd)
{
	struct xdp_umem_reg area;

	/* What is padding here is a member that newer kernels look at. */
	memset(&area, 0, sizeof(area));
	area.addr = (uintptr_t)umem->area;
	area.len = umem->area_size;
	area.chunk_size = spec->frame_size;
	area.flags = spec->unaligned ? XDP_UMEM_UNALIGNED_CHUNK_FLAG : 0;
	if (setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &area, sizeof(area)))
		return fail_register(errno, umem, name);
	umem->fd = fd;
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "pages.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_SIZE (2UL << 20) /* of x86 and of arm64 with pages of 4 KiB */

static size_t round_up(size_t size, size_t to)
{
	return (size + to - 1) / to * to;
}

/* A mapping is a little larger than asked for, so that it can begin where a huge page does. */
void *pages_create(size_t size)
{
	size_t mapped = round_up(size, HUGE_SIZE) + HUGE_SIZE;
	char *area = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *start;

	if (area == MAP_FAILED)
		return NULL;
	start = (char *)round_up((uintptr_t)area, HUGE_SIZE);
	if (start > area)
		munmap(area, start - area);
	munmap(start + round_up(size, HUGE_SIZE),
	       area + mapped - start - round_up(size, HUGE_SIZE));
	/* Refused by kernels without huge pages. */
	madvise(start, round_up(size, HUGE_SIZE), MADV_HUGEPAGE);
	memset(start, 0, size);
	return start;
}

void pages_destroy(void *pages, size_t size)
{
	munmap(pages, round_up(size, HUGE_SIZE));
}

bool pages_available_kib(size_t *kib)
{
	FILE *file = fopen("/proc/meminfo", "re");
	char line[128];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file))
		found = sscanf(line, "MemAvailable: %zu kB", kib) == 1;
	if (file)
		fclose(file);
	return found;
}

long pages_huge_kib(const void *pages)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	char line[512];
	unsigned long from, to;
	bool ours = false;
	long kib = -1;

	while (file && kib < 0 && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			ours = from <= (uintptr_t)pages && (uintptr_t)pages < to;
		else if (ours)
			sscanf(line, "AnonHugePages: %ld kB", &kib);
	}
	if (file)
		fclose(file);
	return kib;
}

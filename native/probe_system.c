// SPDX-License-Identifier: GPL-2.0-or-later
/* What of the machine a case may need, and no port has. */
#include <linux/capability.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

/* -1: there is no such line or file. */
static long long read_number(const char *path, const char *format)
{
	FILE *file = fopen(path, "re");
	long long number = -1;
	char line[128];

	if (!file)
		return -1;
	while (number < 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, format, &number) != 1)
			number = -1;
	fclose(file);
	return number;
}

/* Null: as much as there is. A process with CAP_IPC_LOCK is not held to the limit. */
static json_t *describe_memlock(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
	struct rlimit limit = {0};

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (!syscall(SYS_capget, &header, data) && data[0].effective & 1U << CAP_IPC_LOCK)
		return json_null();
	if (limit.rlim_cur == RLIM_INFINITY)
		return json_null();
	return json_integer((json_int_t)(limit.rlim_cur / 1024));
}

json_t *probe_system(void)
{
	return json_pack("{s:o, s:b, s:I, s:I}", "memlock_kib", describe_memlock(), "btf",
			 !access("/sys/kernel/btf/vmlinux", R_OK), "huge_pages_free",
			 (json_int_t)read_number("/proc/meminfo", "HugePages_Free: %lld"),
			 "huge_page_kib",
			 (json_int_t)read_number("/proc/meminfo", "Hugepagesize: %lld"));
}

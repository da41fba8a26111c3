// SPDX-License-Identifier: GPL-2.0-or-later
#include "guest_system.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <linux/bpf.h>

#include "error.h"

#define CONSOLE "/dev/console"

static const struct {
	const char *type;
	const char *path;
} file_systems[] = {{"devtmpfs", "/dev"}, {"proc", "/proc"}, {"sysfs", "/sys"}};

/* The initramfs need not hold the node, and devtmpfs may be what fails. */
static int open_console(void)
{
	int fd;

	mkdir("/dev", 0755);
	mknod(CONSOLE, S_IFCHR | 0600, makedev(5, 1));
	fd = open(CONSOLE, O_RDWR | O_NOCTTY);
	if (fd < 0)
		return fail(errno, CONSOLE, "open");
	for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
		dup2(fd, i);
	if (fd > STDERR_FILENO)
		close(fd);
	return 0;
}

int guest_system_start(void)
{
	int result = open_console();

	for (size_t i = 0; !result && i < sizeof(file_systems) / sizeof(file_systems[0]); i++) {
		const char *path = file_systems[i].path;

		mkdir(path, 0755);
		/* EBUSY: the kernel mounted it by itself. */
		if (mount(file_systems[i].type, path, file_systems[i].type, 0, NULL) &&
		    errno != EBUSY)
			result = fail(errno, path, "mount");
	}
	return result;
}

static int load_module(const char *name)
{
	char path[256];
	int fd, result = 0;

	snprintf(path, sizeof(path), "/modules/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(errno, name, "open module");
	if (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST)
		result = fail(errno, name, "load module");
	close(fd);
	return result;
}

int guest_load_modules(json_t *names)
{
	json_t *name;
	size_t i;
	int result = 0;

	json_array_foreach(names, i, name) {
		result = load_module(json_string_value(name));
		if (result)
			break;
	}
	return result;
}

int guest_check_bpf(void)
{
	union bpf_attr attr = {0};

	/* The first program's id: there may be none (ENOENT). */
	if (!syscall(SYS_bpf, BPF_PROG_GET_NEXT_ID, &attr, sizeof(attr)) || errno == ENOENT)
		return 0;
	return fail_hint(fail(errno, "kernel", "bpf"), "build it with CONFIG_BPF_SYSCALL=y");
}

static int set_sysctl(const char *name, const char *value)
{
	ssize_t len = strlen(value);
	char path[256];
	int fd, result = 0;

	snprintf(path, sizeof(path), "/proc/sys/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(errno, path, "open");
	if (write(fd, value, len) != len)
		result = fail(errno, path, "write");
	close(fd);
	return result;
}

int guest_set_sysctls(json_t *settings, json_t *absent)
{
	const char *name;
	json_t *value;
	int result;

	json_object_foreach(settings, name, value) {
		result = set_sysctl(name, json_string_value(value));
		if (result && result != -ENOENT)
			return result;
		if (result)
			json_array_append_new(absent, json_pack("{s:o, s:s}", "source",
								json_sprintf("sysctl.%s", name),
								"reason", failure.reason));
	}
	return 0;
}

static bool is_softirq_thread(const char *pid)
{
	static const char prefix[] = "ksoftirqd/";
	char path[300], name[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	file = isdigit((unsigned char)pid[0]) ? fopen(path, "re") : NULL;
	if (!file)
		return false;
	if (!fgets(name, sizeof(name), file))
		name[0] = '\0';
	fclose(file);
	return !strncmp(name, prefix, strlen(prefix));
}

int guest_prefer_softirqs(void)
{
	const struct sched_param lowest = {.sched_priority = 1};
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	int result = directory ? 0 : fail(errno, "/proc", "open");

	while (!result && directory && (entry = readdir(directory)))
		if (is_softirq_thread(entry->d_name) &&
		    sched_setscheduler(atoi(entry->d_name), SCHED_FIFO, &lowest))
			result = fail(errno, "ksoftirqd", "make real-time");
	if (directory)
		closedir(directory);
	return result;
}

void guest_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	dprintf(STDERR_FILENO, "xdprepro: ");
	vdprintf(STDERR_FILENO, format, args);
	dprintf(STDERR_FILENO, "\n");
	va_end(args);
}

/* Where there is no way to cut the power, a reset ends QEMU as well (-no-reboot). */
void guest_power_off(void)
{
	sync();
	reboot(RB_POWER_OFF);
	reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}

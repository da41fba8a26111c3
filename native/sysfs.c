// SPDX-License-Identifier: GPL-2.0-or-later
#include "sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "error.h"

void sysfs_path(char *path, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(path, SYSFS_PATH_MAX, format, args);
	va_end(args);
}

int sysfs_read_line(const char *path, char *line, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;
	int err;

	if (fd < 0)
		return -errno;
	len = read(fd, line, size - 1);
	err = len < 0 ? -errno : 0;
	close(fd);
	if (err)
		return err;
	line[len] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return 0;
}

int sysfs_read_number(const char *path, uint64_t *number)
{
	char line[32];
	char *end;
	int err = sysfs_read_line(path, line, sizeof(line));

	if (err)
		return err;
	errno = 0;
	*number = strtoull(line, &end, 10);
	return errno || end == line || *end || line[0] == '-' ? -EBADMSG : 0;
}

static int is_shown(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

int sysfs_list(const char *path, struct dirent ***entries)
{
	int len = scandir(path, entries, is_shown, versionsort);

	return len < 0 ? -errno : len;
}

void sysfs_free(struct dirent **entries, int len)
{
	for (int i = 0; i < len; i++)
		free(entries[i]);
	if (len >= 0)
		free(entries);
}

/* /sys may show another network namespace than ours; a mount made now shows ours. */
static int mount_sysfs(void)
{
	int result = -1, fd = fsopen("sysfs", FSOPEN_CLOEXEC);

	if (fd < 0)
		return fail(errno, "sysfs", "open");
	if (!fsconfig(fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		result = fsmount(fd, FSMOUNT_CLOEXEC, 0);
	if (result < 0)
		result = fail(errno, "sysfs", "mount");
	close(fd);
	return result;
}

int sysfs_open_port(const char *ifname)
{
	char path[SYSFS_PATH_MAX];
	int fd, root = mount_sysfs();

	if (root < 0)
		return root;
	sysfs_path(path, "class/net/%s", ifname);
	fd = openat(root, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		fd = fail(errno, ifname, "open settings");
	close(root);
	return fd;
}

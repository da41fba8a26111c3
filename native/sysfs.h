/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_SYSFS_H
#define XDPREPRO_SYSFS_H

#include <dirent.h>
#include <stddef.h>
#include <stdint.h>

#define SYSFS_PATH_MAX 512

/* A path of at most SYSFS_PATH_MAX bytes; the longest names there are in /sys are far shorter. */
void sysfs_path(char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first line of a file, without its end; 0 or -errno, without fail(). */
int sysfs_read_line(const char *path, char *line, size_t size);

/* A file of one decimal number; 0 or -errno (EBADMSG: something else is in it), without fail(). */
int sysfs_read_number(const char *path, uint64_t *number);

/*
 * The entries of a directory in order of their names and numbers (cpu2 before cpu10), hidden ones
 * left out. How many there are, or -errno; the list is for sysfs_free().
 */
int sysfs_list(const char *path, struct dirent ***entries);
void sysfs_free(struct dirent **entries, int len);

/*
 * The directory of a port of our network namespace, for openat() or by /proc/self/fd; negative
 * after fail(). It needs no /sys.
 */
int sysfs_open_port(const char *ifname);

#endif

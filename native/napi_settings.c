// SPDX-License-Identifier: GPL-2.0-or-later
#include "napi_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "sysfs.h"

#define NOTES "/run/xdprepro"
#define OWN_NETNS "/proc/self/ns/net"

/* What the kernel's documentation of busy polling advises. */
static const struct {
	const char *name;
	unsigned long long wanted;
} settings_table[] = {
	{"napi_defer_hard_irqs", 2},
	{"gro_flush_timeout", 200000}, /* ns */
};

#define SETTINGS_LEN (sizeof(settings_table) / sizeof(settings_table[0]))

/* Another network namespace may have a port of the same name. */
static int find_note(struct napi_settings *settings)
{
	struct stat netns;

	if (stat(OWN_NETNS, &netns))
		return fail(errno, OWN_NETNS, "read");
	snprintf(settings->note, sizeof(settings->note), NOTES "/napi-%llu-%s",
		 (unsigned long long)netns.st_ino, settings->ifname);
	return 0;
}

static int read_setting(const struct napi_settings *settings, size_t i, unsigned long long *value)
{
	const char *name = settings_table[i].name;
	char text[32] = "";
	int fd = openat(settings->sysfs_fd, name, O_RDONLY | O_CLOEXEC);
	bool good = fd >= 0 && read(fd, text, sizeof(text) - 1) > 0;
	int err = errno;

	if (fd >= 0)
		close(fd);
	if (!good)
		return fail(err, settings->ifname, name);
	good = sscanf(text, "%llu", value) == 1;
	return good ? 0 : fail_because(0, settings->ifname, name, "no number: %s", text);
}

static int write_setting(const struct napi_settings *settings, size_t i, unsigned long long value)
{
	const char *name = settings_table[i].name;
	int fd = openat(settings->sysfs_fd, name, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && dprintf(fd, "%llu\n", value) > 0;
	int err = errno;

	if (fd >= 0)
		close(fd);
	return good ? 0 : fail(err, settings->ifname, name);
}

/* The values before and those that were set; what somebody changed since stays. */
static int undo(const struct napi_settings *settings)
{
	unsigned long long now, before;
	char text[128] = "", *at = text;
	ssize_t size = pread(settings->note_fd, text, sizeof(text) - 1, 0);
	int used, result = size < 0 ? fail(errno, settings->note, "read") : 0;

	for (size_t i = 0; !result && i < SETTINGS_LEN; i++, at += used) {
		if (sscanf(at, "%llu%n", &before, &used) != 1)
			return 0; /* killed before it had changed anything */
		result = read_setting(settings, i, &now);
		if (!result && now == settings_table[i].wanted)
			result = write_setting(settings, i, before);
	}
	return result;
}

static int note(const struct napi_settings *settings)
{
	unsigned long long before[SETTINGS_LEN];
	int result = 0;

	for (size_t i = 0; !result && i < SETTINGS_LEN; i++)
		result = read_setting(settings, i, &before[i]);
	if (result)
		return result;
	if (ftruncate(settings->note_fd, 0) ||
	    dprintf(settings->note_fd, "%llu %llu\n", before[0], before[1]) < 0)
		return fail(errno, settings->note, "write");
	return 0;
}

static int set(const struct napi_settings *settings)
{
	unsigned long long now;
	int result = 0;

	for (size_t i = 0; !result && i < SETTINGS_LEN; i++) {
		result = write_setting(settings, i, settings_table[i].wanted);
		if (!result)
			result = read_setting(settings, i, &now);
		if (!result && now != settings_table[i].wanted)
			result =
				fail_because(0, settings->ifname, settings_table[i].name,
					     "it is %llu, not %llu", now, settings_table[i].wanted);
	}
	return result;
}

static void close_all(struct napi_settings *settings)
{
	if (settings->note_fd >= 0)
		close(settings->note_fd);
	if (settings->sysfs_fd >= 0)
		close(settings->sysfs_fd);
	*settings = (struct napi_settings)NAPI_SETTINGS_NONE;
}

/* Whether the note still has its name: the agent that held the lock before may have removed it. */
static bool is_named(const struct napi_settings *settings)
{
	struct stat opened, named;

	return !fstat(settings->note_fd, &opened) && !stat(settings->note, &named) &&
	       opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

static int lock_note(struct napi_settings *settings, int flags)
{
	for (;;) {
		settings->note_fd = open(settings->note, O_RDWR | O_CLOEXEC | flags, 0644);
		if (settings->note_fd < 0)
			return fail(errno, settings->note, "open");
		if (flock(settings->note_fd, LOCK_EX | LOCK_NB))
			return fail(errno, settings->note, "lock");
		if (is_named(settings))
			return 0;
		close(settings->note_fd);
	}
}

/* The note, locked; -EWOULDBLOCK: the agent that wrote it lives. */
static int open_note(struct napi_settings *settings, const char *ifname, int flags)
{
	int result;

	snprintf(settings->ifname, sizeof(settings->ifname), "%s", ifname);
	result = find_note(settings);
	if (!result)
		result = lock_note(settings, flags);
	if (result)
		return result;
	settings->sysfs_fd = sysfs_open_port(settings->ifname);
	return settings->sysfs_fd < 0 ? settings->sysfs_fd : 0;
}

static int fail_locked(int result, const char *ifname)
{
	if (result != -EWOULDBLOCK)
		return result;
	return fail_hint(fail_because(EBUSY, ifname, "hold settings",
				      "another agent holds its NAPI settings"),
			 "wait until its trial is over");
}

int napi_settings_hold(struct napi_settings *settings, const char *ifname)
{
	int result;

	*settings = (struct napi_settings)NAPI_SETTINGS_NONE;
	mkdir("/run", 0755);
	mkdir(NOTES, 0755);
	result = open_note(settings, ifname, O_CREAT);
	if (!result)
		result = undo(settings);
	if (!result)
		result = note(settings);
	if (result) {
		close_all(settings);
		return fail_locked(result, ifname);
	}
	result = set(settings);
	if (result) {
		const struct failure why = failure;

		napi_settings_put_back(settings);
		failure = why;
	}
	return result;
}

/* The note stays where this fails, for the next agent to try. */
void napi_settings_put_back(struct napi_settings *settings)
{
	if (settings->note_fd >= 0 && !undo(settings))
		unlink(settings->note);
	close_all(settings);
}

int napi_settings_mend(const char *ifname)
{
	struct napi_settings settings = NAPI_SETTINGS_NONE;
	int result = open_note(&settings, ifname, 0);

	if (!result)
		result = undo(&settings);
	if (!result) {
		unlink(settings.note);
		fprintf(stderr, "%s: put back NAPI settings that a killed agent left\n", ifname);
	}
	close_all(&settings);
	return result == -ENOENT || result == -EWOULDBLOCK ? 0 : result;
}

int napi_settings_describe(const struct napi_settings *settings, json_t **object)
{
	unsigned long long value;
	int result = 0;

	*object = json_object();
	for (size_t i = 0; !result && i < SETTINGS_LEN; i++) {
		result = read_setting(settings, i, &value);
		if (!result &&
		    json_object_set_new(*object, settings_table[i].name, json_integer(value)))
			result = fail(ENOMEM, settings->ifname, "describe settings");
	}
	if (result)
		json_decref(*object);
	return result;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "guest_channel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "guest_job.h"
#include "out.h"

#define PORTS "/sys/class/virtio-ports"
#define PORT_NAME "xdprepro.results"
#define SERIAL "/dev/ttyS1"
#define FIND_BUDGET_NS (5 * NS_PER_S)
#define FIND_STEP_NS (10 * NS_PER_MS)

static struct {
	int fd;
	bool holding;
	char *held;
	size_t held_len;
	size_t held_size;
} channel = {.fd = -1};

static bool has_name(const char *port)
{
	char path[300], name[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), PORTS "/%s/name", port);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(name, sizeof(name), file))
		name[0] = '\0';
	fclose(file);
	name[strcspn(name, "\n")] = '\0';
	return !strcmp(name, PORT_NAME);
}

static bool find_port(char *path, size_t size)
{
	DIR *directory = opendir(PORTS);
	struct dirent *entry;
	bool found = false;

	while (directory && !found && (entry = readdir(directory))) {
		found = has_name(entry->d_name);
		snprintf(path, size, "/dev/%s", entry->d_name);
	}
	if (directory)
		closedir(directory);
	return found;
}

/* The host tells the name some time after the driver has found the device. */
static int open_virtio_port(void)
{
	int64_t deadline_ns = now_ns() + FIND_BUDGET_NS;
	char path[300];

	while (!find_port(path, sizeof(path))) {
		if (now_ns() > deadline_ns)
			return fail_because(ENODEV, "virtio-serial", "open channel",
					    "no such device: no port is named %s", PORT_NAME);
		sleep_ns(FIND_STEP_NS);
	}
	channel.fd = open(path, O_WRONLY | O_CLOEXEC);
	return channel.fd < 0 ? fail(errno, path, "open channel") : 0;
}

static int open_serial(void)
{
	struct termios settings;

	channel.fd = open(SERIAL, O_WRONLY | O_NOCTTY | O_CLOEXEC);
	if (channel.fd < 0)
		return fail(errno, SERIAL, "open channel");
	if (tcgetattr(channel.fd, &settings))
		return fail(errno, SERIAL, "read settings");
	cfmakeraw(&settings);
	cfsetspeed(&settings, B115200);
	return tcsetattr(channel.fd, TCSANOW, &settings) ? fail(errno, SERIAL, "make raw") : 0;
}

int channel_open(int kind)
{
	return kind == CHANNEL_SERIAL ? open_serial() : open_virtio_port();
}

static int write_all(const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(channel.fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(errno, "channel", "write");
		text += n;
		len -= n;
	}
	return 0;
}

static int hold(const char *text, size_t len)
{
	while (channel.held_size < channel.held_len + len) {
		size_t size = channel.held_size ? 2 * channel.held_size : 65536;
		char *held = realloc(channel.held, size);

		if (!held)
			return fail(ENOMEM, "channel", "hold");
		channel.held = held;
		channel.held_size = size;
	}
	memcpy(channel.held + channel.held_len, text, len);
	channel.held_len += len;
	return 0;
}

int channel_text(const char *text, size_t len)
{
	return channel.holding ? hold(text, len) : write_all(text, len);
}

int channel_line(json_t *line)
{
	char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
	size_t len;
	int result;

	json_decref(line);
	if (!text)
		return fail(ENOMEM, "channel", "make a line");
	len = strlen(text);
	text[len] = '\n'; /* in place of the final 0 */
	result = channel_text(text, len + 1);
	free(text);
	return result;
}

void channel_hold(void)
{
	channel.holding = true;
}

int channel_release(void)
{
	int result = write_all(channel.held, channel.held_len);

	channel.holding = false;
	channel.held_len = 0;
	return result;
}

void channel_failure(int kind)
{
	struct failure first = failure;
	int result = channel.fd < 0 ? channel_open(kind) : 0;

	failure = first;
	if (!result && !channel_release())
		channel_line(failure_describe());
}

void channel_drain(void)
{
	if (isatty(channel.fd))
		tcdrain(channel.fd);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* What the guest tells about itself. */
#include "guest_report.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "error.h"
#include "guest_channel.h"

#define VULNERABILITIES "/sys/devices/system/cpu/vulnerabilities"
#define CLOCKSOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"
#define NOTES "/sys/kernel/notes"
#define CPUINFO "/proc/cpuinfo"
#define CONFIG "/proc/config.gz"
#define CONFIG_CHUNK 49152 /* a multiple of 3, so that base64 of the chunks can be joined */
#define NOTE_ALIGN(len) (((len) + 3u) & ~3u)

static void note_absent(json_t *absent, const char *source, const char *reason)
{
	json_array_append_new(absent, json_pack("{s:s, s:s}", "source", source, "reason", reason));
}

/* The first line of a file; NULL with errno where there is none. */
static json_t *read_line(const char *path)
{
	FILE *file = fopen(path, "re");
	char text[1024] = "";

	if (!file)
		return NULL;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	text[strcspn(text, "\n")] = '\0';
	return json_string(text);
}

static void add_line(json_t *object, json_t *absent, const char *key, const char *path)
{
	json_t *line = read_line(path);

	if (line)
		json_object_set_new(object, key, line);
	else
		note_absent(absent, key, strerror(errno));
}

static void add_mitigations(json_t *object, json_t *absent)
{
	DIR *directory = opendir(VULNERABILITIES);
	json_t *mitigations;
	struct dirent *entry;
	char path[320];

	if (!directory) {
		note_absent(absent, "mitigations", strerror(errno));
		return;
	}
	mitigations = json_object();
	while ((entry = readdir(directory))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), VULNERABILITIES "/%s", entry->d_name);
		json_object_set_new(mitigations, entry->d_name, read_line(path));
	}
	closedir(directory);
	json_object_set_new(object, "mitigations", mitigations);
}

static json_t *format_hex(const uint8_t *bytes, size_t len)
{
	char text[2 * 64 + 1] = "";

	for (size_t i = 0; i < len && i < 64; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return json_string(text);
}

/* NULL: no such note. */
static json_t *find_build_id(const uint8_t *notes, size_t len)
{
	for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= len;) {
		const Elf64_Nhdr *note = (const void *)(notes + at);
		const uint8_t *name = notes + at + sizeof(*note);
		const uint8_t *value = name + NOTE_ALIGN(note->n_namesz);

		if (value + note->n_descsz > notes + len)
			return NULL;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == sizeof("GNU") &&
		    !memcmp(name, "GNU", sizeof("GNU")))
			return format_hex(value, note->n_descsz);
		at = value + NOTE_ALIGN(note->n_descsz) - notes;
	}
	return NULL;
}

static void add_build_id(json_t *object, json_t *absent)
{
	uint8_t notes[4096] __attribute__((aligned(4)));
	FILE *file = fopen(NOTES, "re");
	json_t *build_id = NULL;

	if (!file) {
		note_absent(absent, "build_id", strerror(errno));
		return;
	}
	build_id = find_build_id(notes, fread(notes, 1, sizeof(notes), file));
	fclose(file);
	if (build_id)
		json_object_set_new(object, "build_id", build_id);
	else
		note_absent(absent, "build_id", "no GNU build id among the notes");
}

/* Lines of /proc/cpuinfo look like "model name\t: QEMU TCG CPU", those of the first CPU first. */
static void add_cpu(json_t *object, json_t *absent)
{
	static const char *const keys[][2] = {{"model name", "cpu_model"},
					      {"microcode", "microcode"}};
	FILE *file = fopen(CPUINFO, "re");
	char *line = NULL;
	size_t size = 0;

	while (file && getline(&line, &size, file) > 0 && line[0] != '\n')
		for (size_t i = 0; i < 2; i++) {
			char *value = strstr(line, ": ");

			if (!value || strncmp(line, keys[i][0], strlen(keys[i][0])))
				continue;
			value[strcspn(value, "\n")] = '\0';
			json_object_set_new(object, keys[i][1], json_string(value + 2));
		}
	free(line);
	if (file)
		fclose(file);
	if (!json_object_get(object, "cpu_model"))
		note_absent(absent, "cpu_model", "/proc/cpuinfo has no model name");
}

int guest_report_kernel(json_t *absent)
{
	struct sysinfo memory;
	struct utsname name;
	json_t *object;

	uname(&name);
	sysinfo(&memory);
	object = json_pack("{s:s, s:s, s:I}", "release", name.release, "version", name.version,
			   "memory_bytes", (json_int_t)memory.totalram * memory.mem_unit);
	if (!object) {
		json_decref(absent);
		return fail(ENOMEM, "guest", "describe");
	}
	add_line(object, absent, "boot_id", "/proc/sys/kernel/random/boot_id");
	add_line(object, absent, "cmdline", "/proc/cmdline");
	add_line(object, absent, "clocksource", CLOCKSOURCE);
	add_mitigations(object, absent);
	add_build_id(object, absent);
	add_cpu(object, absent);
	json_object_set_new(object, "absent", absent);
	return channel_line(json_pack("{s:o}", "guest", object));
}

static json_t *format_base64(const uint8_t *bytes, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char text[CONFIG_CHUNK / 3 * 4 + 1];
	char *end = text;

	for (size_t i = 0; i < len; i += 3) {
		uint32_t bits = bytes[i] << 16 | (i + 1 < len ? bytes[i + 1] << 8 : 0) |
				(i + 2 < len ? bytes[i + 2] : 0);

		for (int shift = 18; shift >= 0; shift -= 6)
			*end++ = digits[bits >> shift & 63];
		if (i + 2 >= len)
			end[-1] = '=';
		if (i + 1 >= len)
			end[-2] = '=';
	}
	*end = '\0';
	return json_string(text);
}

int guest_report_config(void)
{
	uint8_t chunk[CONFIG_CHUNK];
	FILE *file = fopen(CONFIG, "re");
	size_t len;
	int result = 0;

	while (file && !result && (len = fread(chunk, 1, sizeof(chunk), file)))
		result = channel_line(
			json_pack("{s:o}", "config_gz_base64", format_base64(chunk, len)));
	if (file)
		fclose(file);
	return result;
}

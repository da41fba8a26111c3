/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_SPEC_VALUE_H
#define XDPREPRO_SPEC_VALUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Values of one object of a document. Each reader takes a required key and checks it; a failure
 * names the key with its path, the value, and what is allowed.
 */
struct section {
	json_t *object;
	const char *document; /* "spec" and the like: what a failure is about */
	const char *path;     /* "" or "frame." and the like */
};

/* Every key of the section must be in the list, which ends with NULL. */
int section_check_keys(const struct section *section, const char *const *allowed);

int read_section(const struct section *section, const char *key, const char *path,
		 struct section *inner);
int read_string(const struct section *section, const char *key, char *text, size_t size);
int read_choice(const struct section *section, const char *key, const char *const *names,
		int *index);
int read_bool(const struct section *section, const char *key, bool *value);
int read_int(const struct section *section, const char *key, int64_t min, int64_t max,
	     int64_t *value);
int read_small(const struct section *section, const char *key, int min, int max, int *value);
int read_power_of_two(const struct section *section, const char *key, int min, int max, int *value);
int read_seconds(const struct section *section, const char *key, double min, double max,
		 int64_t *ns);
int read_mac(const struct section *section, const char *key, uint8_t mac[6]);

/* A list of different integers, at least one. */
int read_int_list(const struct section *section, const char *key, int max, int *values,
		  size_t *len);

/* A value that is wrong only together with others. */
int bad_value(const struct section *section, const char *key, const char *allowed);

#endif

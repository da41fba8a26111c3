// SPDX-License-Identifier: GPL-2.0-or-later
#include "spec_value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "error.h"

static void join(char *text, size_t size, const char *const *names)
{
	text[0] = '\0';
	for (size_t i = 0; names[i]; i++) {
		size_t len = strlen(text);

		snprintf(text + len, size - len, "%s%s", i ? ", " : "", names[i]);
	}
}

int bad_value(const struct section *section, const char *key, const char *allowed)
{
	json_t *value = json_object_get(section->object, key);
	char *text =
		value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6))
		      : NULL;
	char name[64];

	snprintf(name, sizeof(name), "%s%s", section->path, key);
	if (text)
		fail_usage(section->document, name, "%.100s is not %s", text, allowed);
	else
		fail_usage(section->document, name, "missing; it must be %s", allowed);
	free(text);
	return -EINVAL;
}

int section_check_keys(const struct section *section, const char *const *allowed)
{
	char text[512];
	char name[64];
	const char *key;
	json_t *value;

	json_object_foreach(section->object, key, value) {
		bool known = false;

		for (size_t i = 0; allowed[i]; i++)
			known |= !strcmp(key, allowed[i]);
		if (known)
			continue;
		join(text, sizeof(text), allowed);
		snprintf(name, sizeof(name), "%s%s", section->path, key);
		return fail_usage(section->document, name, "unknown key here; allowed: %s", text);
	}
	return 0;
}

int read_section(const struct section *section, const char *key, const char *path,
		 struct section *inner)
{
	inner->object = json_object_get(section->object, key);
	inner->document = section->document;
	inner->path = path;
	return json_is_object(inner->object) ? 0 : bad_value(section, key, "an object");
}

int read_string(const struct section *section, const char *key, char *text, size_t size)
{
	json_t *value = json_object_get(section->object, key);
	char allowed[64];

	snprintf(allowed, sizeof(allowed), "a string of 1 to %zu characters", size - 1);
	if (!json_string_length(value) || json_string_length(value) >= size)
		return bad_value(section, key, allowed);
	snprintf(text, size, "%s", json_string_value(value));
	return 0;
}

int read_choice(const struct section *section, const char *key, const char *const *names,
		int *index)
{
	const char *value = json_string_value(json_object_get(section->object, key));
	char allowed[256] = "one of ";

	for (int i = 0; value && names[i]; i++)
		if (!strcmp(value, names[i])) {
			*index = i;
			return 0;
		}
	join(allowed + strlen(allowed), sizeof(allowed) - strlen(allowed), names);
	return bad_value(section, key, allowed);
}

int read_bool(const struct section *section, const char *key, bool *value)
{
	json_t *json = json_object_get(section->object, key);

	*value = json_is_true(json);
	return json_is_boolean(json) ? 0 : bad_value(section, key, "true or false");
}

int read_int(const struct section *section, const char *key, int64_t min, int64_t max,
	     int64_t *value)
{
	json_t *json = json_object_get(section->object, key);
	char allowed[96];

	*value = json_integer_value(json);
	if (json_is_integer(json) && *value >= min && *value <= max)
		return 0;
	snprintf(allowed, sizeof(allowed), "an integer from %lld to %lld", (long long)min,
		 (long long)max);
	return bad_value(section, key, allowed);
}

int read_small(const struct section *section, const char *key, int min, int max, int *value)
{
	int64_t number;
	int result = read_int(section, key, min, max, &number);

	*value = number;
	return result;
}

int read_power_of_two(const struct section *section, const char *key, int min, int max, int *value)
{
	int64_t number = json_integer_value(json_object_get(section->object, key));
	char allowed[96];

	*value = number;
	if (number >= min && number <= max && !(number & (number - 1)))
		return 0;
	snprintf(allowed, sizeof(allowed), "a power of two from %d to %d", min, max);
	return bad_value(section, key, allowed);
}

int read_seconds(const struct section *section, const char *key, double min, double max,
		 int64_t *ns)
{
	json_t *json = json_object_get(section->object, key);
	double seconds = json_number_value(json);
	char allowed[96];

	if (json_is_number(json) && seconds >= min && seconds <= max) {
		*ns = seconds * NS_PER_S;
		return 0;
	}
	snprintf(allowed, sizeof(allowed), "a number of seconds from %g to %g", min, max);
	return bad_value(section, key, allowed);
}

int read_mac(const struct section *section, const char *key, uint8_t mac[6])
{
	const char *text = json_string_value(json_object_get(section->object, key));
	int len = 0;

	if (text &&
	    sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &mac[0], &mac[1], &mac[2],
		   &mac[3], &mac[4], &mac[5], &len) == 6 &&
	    !text[len] && strlen(text) == strlen("00:00:00:00:00:00"))
		return 0;
	return bad_value(section, key, "a MAC address like \"02:00:00:00:00:01\"");
}

int read_int_list(const struct section *section, const char *key, int max, int *values, size_t *len)
{
	json_t *list = json_object_get(section->object, key);
	char allowed[96];
	size_t i;
	json_t *item;

	snprintf(allowed, sizeof(allowed), "a list of different integers from 0 to %d", max);
	*len = json_array_size(list);
	if (!*len || *len > (size_t)max + 1)
		return bad_value(section, key, allowed);
	json_array_foreach(list, i, item) {
		values[i] = json_integer_value(item);
		if (!json_is_integer(item) || json_integer_value(item) < 0 ||
		    json_integer_value(item) > max)
			return bad_value(section, key, allowed);
		for (size_t j = 0; j < i; j++)
			if (values[j] == values[i])
				return bad_value(section, key, allowed);
	}
	return 0;
}

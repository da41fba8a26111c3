// SPDX-License-Identifier: GPL-2.0-or-later
#include "version.h"

#include <gnu/libc-version.h>
#include <jansson.h>
#include <stdio.h>

#include "build_info.h"
#include "cases.h"
#include "out.h"
#include "window.h"

static void add_object(json_t *object, const struct object *of)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_one_queue", of->name);
	json_object_set_new(object, of->name, json_string(of->queues.sha256));
	json_object_set_new(object, name, json_string(of->one_queue.sha256));
}

static json_t *describe_objects(void)
{
	json_t *object = json_object();

	for (size_t i = 0; i < objects_len; i++)
		add_object(object, objects[i]);
	return object;
}

static json_t *describe_case(const struct test_case *test_case)
{
	const struct program *program = test_case->program;
	json_t *roles = json_array();

	for (int role = 0; role_names[role]; role++)
		if (test_case->roles & ROLE_BIT(role))
			json_array_append_new(roles, json_string(role_names[role]));
	return json_pack("{s:o, s:s?, s:s?}", "roles", roles, "object",
			 program ? program->object->name : NULL, "program",
			 program ? program->name : NULL);
}

static json_t *describe_cases(void)
{
	const struct test_case *test_case;
	json_t *object = json_object();

	for (size_t i = 0; (test_case = case_at(i)); i++)
		json_object_set_new(object, test_case->name, describe_case(test_case));
	return object;
}

static json_t *describe_markers(void)
{
	const struct {
		const char *name;
		uintptr_t address;
	} markers[] = {
		{"arm", (uintptr_t)window_arm},      {"open", (uintptr_t)window_open},
		{"close", (uintptr_t)window_close},  {"app", (uintptr_t)window_app},
		{"table", (uintptr_t)&window_table},
	};
	json_t *object = json_object();

	for (size_t i = 0; i < sizeof(markers) / sizeof(markers[0]); i++)
		json_object_set_new(object, markers[i].name,
				    json_sprintf("0x%jx", (uintmax_t)markers[i].address));
	return object;
}

int version_run(void)
{
	return out_line(json_pack("{s:{s:s, s:s, s:s, s:s, s:s, s:s}, s:o, s:o, s:o}", "built_from",
				  "cc", BUILD_CC, "clang", BUILD_CLANG, "libbpf", BUILD_LIBBPF,
				  "libxdp", BUILD_LIBXDP, "jansson", JANSSON_VERSION, "libc",
				  gnu_get_libc_version(), "bpf", describe_objects(), "cases",
				  describe_cases(), "markers", describe_markers()));
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "version.h"

#include <gnu/libc-version.h>
#include <jansson.h>

#include "build_info.h"
#include "out.h"
#include "programs.h"
#include "window.h"

static const char *const role_names[] = {
	[ROLE_SINK] = "sink", [ROLE_FORWARD] = "forward", [ROLE_GENERATE] = "generate"};

static json_t *describe_programs(void)
{
	json_t *object = json_object();

	for (size_t i = 0; i < programs_len; i++)
		json_object_set_new(object, programs[i].name, json_string(programs[i].sha256));
	return object;
}

static json_t *describe_cases(void)
{
	json_t *object = json_object();

	for (size_t i = 0; i < test_cases_len; i++)
		json_object_set_new(object, test_cases[i].name,
				    json_pack("{s:s, s:s}", "role", role_names[test_cases[i].role],
					      "program", test_cases[i].program->name));
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
				  gnu_get_libc_version(), "bpf", describe_programs(), "cases",
				  describe_cases(), "markers", describe_markers()));
}

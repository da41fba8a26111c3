// SPDX-License-Identifier: GPL-2.0-or-later
/* What a program with a work has of it: knobs, maps of the right sizes, and the
 * tables' contents. */
#include "work.h"

#include <errno.h>
#include <sys/mman.h>

#include <bpf/bpf.h>

#include "error.h"
#include "pages.h"

#define BATCH 1024
#define WORKERS_SIZE (RECORD_CPUS * sizeof(struct worker))

static int set_knobs(const struct work_spec *spec, struct bpf_object *object)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata.work");
	const struct work_knobs knobs = {
		.lines = spec->lines,
		.iterations = spec->iterations,
		.backends = spec->backends,
	};
	int err = map ? -bpf_map__set_initial_value(map, &knobs, sizeof(knobs)) : 0;

	return err ? fail(err, "work", "set knobs") : 0;
}

static int size_map(struct bpf_object *object, const char *name, int entries)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, name);
	int err = map && entries ? -bpf_map__set_max_entries(map, entries) : 0;

	return err ? fail(err, name, "size map") : 0;
}

int work_prepare(const void *context, struct bpf_object *object)
{
	const struct work_state *state = context;
	int result = set_knobs(state->spec, object);

	if (!result)
		result = size_map(object, "lines", state->spec->lines);
	if (!result)
		result = size_map(object, "acl", state->spec->acl);
	return result ? result : size_map(object, "sessions", state->spec->sessions);
}

static int find_map(const struct loaded *program, const char *name)
{
	return bpf_object__find_map_fd_by_name(program->object, name);
}

/* Batches came with 5.6. */
static int put_flows(int fd, const struct flow *keys, const __u32 *values, __u32 len)
{
	__u32 done = len;
	int result = bpf_map_update_batch(fd, keys, values, &done, NULL);

	if (result != -EINVAL)
		return result;
	result = 0;
	for (__u32 i = 0; !result && i < len; i++)
		result = bpf_map_update_elem(fd, &keys[i], &values[i], BPF_ANY);
	return result;
}

static int fill_flows(const struct loaded *program, const char *name,
		      const struct flow_table *table)
{
	int fd = find_map(program, name), result = 0;
	struct flow keys[BATCH];
	__u32 values[BATCH];
	uint16_t number;
	__u32 len = 0;
	size_t i = 0;

	if (fd < 0)
		return 0;
	for (bool more = true; !result && more;) {
		more = flow_table_next(table, &i, &keys[len], &number);
		values[len] = number;
		len += more;
		if (len == BATCH || (!more && len)) {
			result = put_flows(fd, keys, values, len);
			len = 0;
		}
	}
	return result ? fail(-result, name, "fill map") : 0;
}

static int fill_backends(const struct work_state *state, const struct loaded *program)
{
	int fd = find_map(program, "backends"), err = 0;

	if (fd < 0)
		return 0;
	for (__u32 i = 0; !err && i < WORK_BACKENDS; i++)
		err = -bpf_map_update_elem(fd, &i, &state->backends[i], BPF_ANY);
	return err ? fail(err, "backends", "fill map") : 0;
}

static int map_area(const struct loaded *program, const char *name, size_t size, void **area)
{
	int fd = find_map(program, name);

	*area = NULL;
	if (fd < 0)
		return 0;
	*area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*area != MAP_FAILED)
		return 0;
	*area = NULL;
	return fail(errno, name, "map");
}

static size_t lines_size(const struct work_state *state)
{
	return state->spec->lines * sizeof(struct line);
}

static int map_memory(struct work_state *state, const struct loaded *program)
{
	struct worker **workers = &state->program.workers;
	int result = map_area(program, ".data.workers", WORKERS_SIZE, (void **)workers);

	for (int cpu = 0; *workers && cpu < RECORD_CPUS; cpu++)
		(*workers)[cpu].random = WORKER_SEED(state->spec->seed, cpu);
	if (!result)
		result = map_area(program, "lines", lines_size(state),
				  (void **)&state->program.lines);
	return result;
}

int work_fill_maps(struct work_state *state, const struct loaded *program)
{
	int result = fill_flows(program, "acl", &state->acl);

	if (!result)
		result = fill_flows(program, "sessions", &state->sessions);
	if (!result)
		result = fill_flows(program, "services", &state->services);
	if (!result)
		result = fill_backends(state, program);
	return result ? result : map_memory(state, program);
}

void work_unmap(struct work_state *state)
{
	if (state->program.workers)
		munmap(state->program.workers, WORKERS_SIZE);
	if (state->program.lines)
		munmap(state->program.lines, lines_size(state));
	state->program.workers = NULL;
	state->program.lines = NULL;
}

/* How many entries a map has room for, as the kernel tells; null: the program
 * has no such map. */
static json_t *read_size(const struct loaded *program, const char *name)
{
	struct bpf_map_info info = {0};
	__u32 info_len = sizeof(info);
	int fd = program->object ? find_map(program, name) : -1;

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &info_len))
		return json_null();
	return json_integer(info.max_entries);
}

json_t *work_describe(const struct work_state *state, const struct loaded *program)
{
	const void *memory = state->lines ? (void *)state->lines : state->sessions.slots;

	return json_pack(
		"{s:s, s:I, s:I, s:I, s:{s:o, s:o, s:o}, s:o}", "name", state->work->name, "acl",
		(json_int_t)state->acl.len, "sessions", (json_int_t)state->sessions.len, "services",
		(json_int_t)state->services.len, "maps", "lines", read_size(program, "lines"),
		"acl", read_size(program, "acl"), "sessions", read_size(program, "sessions"),
		"huge_pages_kib", memory ? json_integer(pages_huge_kib(memory)) : json_null());
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <bpf/bpf.h>

#include "error.h"

void load_raise_memlock(void)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	/* Not allowed without CAP_SYS_RESOURCE; then up to the hard limit, which always is. */
	if (!setrlimit(RLIMIT_MEMLOCK, &limit) || getrlimit(RLIMIT_MEMLOCK, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_MEMLOCK, &limit);
}

unsigned long long load_memlock_kib(void)
{
	struct rlimit limit = {0};

	getrlimit(RLIMIT_MEMLOCK, &limit);
	return limit.rlim_cur / 1024;
}

static int fail_load(int err, const char *name, const char *needs)
{
	int result = fail(err, name, "load");

	if (err == EPERM)
		fail_hint(result,
			  "run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; kernels "
			  "before 5.11 also want room in RLIMIT_MEMLOCK, which is %llu KiB",
			  load_memlock_kib());
	if (err == EINVAL && needs)
		fail_hint(result, "%s", needs);
	/* They copy the first value of .bss by way of kmalloc(). */
	if (err == ENOMEM)
		fail_hint(result, "kernels before 5.15 want 2 MiB in one piece: run 'sysctl -w "
				  "vm.compact_memory=1' and try again");
	return result;
}

static int set_knobs(struct bpf_object *object, const struct program *program,
		     const struct load_options *options)
{
	struct bpf_map *rodata = bpf_object__find_map_by_name(object, ".rodata");
	int err;

	if (!options->knobs)
		return 0;
	if (!rodata || bpf_map__value_size(rodata) != options->knobs_size)
		return fail_because(0, program->name, "set knobs", "no .rodata of %zu bytes",
				    options->knobs_size);
	err = bpf_map__set_initial_value(rodata, options->knobs, options->knobs_size);
	return err ? fail(-err, program->name, "set knobs") : 0;
}

/* libbpf maps .bss only for skeletons, so it is done here. */
static int map_area(const struct bpf_map *map, const struct program *program,
		    const struct record **records, size_t *size)
{
	void *area;

	*size = bpf_map__value_size(map);
	if (*size % (RECORD_CPUS * sizeof(struct record)))
		return fail_because(0, program->name, "map counters", "unexpected %s",
				    bpf_map__name(map));
	area = mmap(NULL, *size, PROT_READ, MAP_SHARED, bpf_map__fd(map), 0);
	if (area == MAP_FAILED)
		return fail(errno, program->name, "map counters");
	*records = area;
	return 0;
}

static int map_records(struct loaded *loaded, const struct program *program)
{
	struct bpf_map *bss = bpf_object__find_map_by_name(loaded->object, ".bss");
	int result = bss ? map_area(bss, program, &loaded->records, &loaded->records_size) : 0;

	loaded->records_per_cpu = loaded->records_size / (RECORD_CPUS * sizeof(struct record));
	return result;
}

static int map_remote(struct loaded *loaded, const struct program *program)
{
	struct bpf_map *bss = bpf_object__find_map_by_name(loaded->object, ".bss.remote");

	return bss ? map_area(bss, program, &loaded->remote, &loaded->remote_size) : 0;
}

static struct bpf_program *find_program(struct loaded *loaded, const char *name)
{
	struct bpf_program *program = bpf_object__find_program_by_name(loaded->object, name);

	if (!program)
		fail_because(0, name, "open", "the object lacks the program");
	return program;
}

/* Of all the programs of the object, load the one, and the second if there is one. */
static int choose_programs(struct loaded *loaded, const struct program *program,
			   const struct load_options *options, struct bpf_program **entry)
{
	struct bpf_program *other;

	bpf_object__for_each_program(other, loaded->object) bpf_program__set_autoload(other, false);
	*entry = find_program(loaded, program->name);
	if (!*entry)
		return fail_result();
	bpf_program__set_autoload(*entry, true);
	bpf_program__set_flags(*entry, options->flags);
	if (!options->also)
		return 0;
	other = find_program(loaded, options->also);
	if (!other)
		return fail_result();
	bpf_program__set_autoload(other, true);
	bpf_program__set_flags(other, options->flags);
	return 0;
}

int loaded_create(struct loaded *loaded, const struct program *program,
		  const struct load_options *options)
{
	const struct object *object = program->object;
	const struct image *image = options->one_queue ? &object->one_queue : &object->queues;
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = object->name);
	struct bpf_program *entry;
	int result;

	memset(loaded, 0, sizeof(*loaded));
	loaded->fd = -1;
	loaded->object = bpf_object__open_mem(image->elf, image->end - image->elf, &opts);
	if (!loaded->object)
		return fail(errno, program->name, "open");
	result = choose_programs(loaded, program, options, &entry);
	if (!result)
		result = set_knobs(loaded->object, program, options);
	if (!result && options->prepare)
		result = options->prepare(options->context, loaded->object);
	if (result)
		goto destroy;
	result = bpf_object__load(loaded->object);
	if (result) {
		result = fail_load(-result, program->name, options->needs);
		goto destroy;
	}
	loaded->fd = bpf_program__fd(entry);
	result = map_records(loaded, program);
	if (!result && options->also)
		result = map_remote(loaded, program);
	if (result)
		goto destroy;
	return 0;
destroy:
	loaded_destroy(loaded);
	return result;
}

void loaded_destroy(struct loaded *loaded)
{
	if (loaded->records)
		munmap((void *)loaded->records, loaded->records_size);
	if (loaded->remote)
		munmap((void *)loaded->remote, loaded->remote_size);
	bpf_object__close(loaded->object);
	memset(loaded, 0, sizeof(*loaded));
	loaded->fd = -1;
}

bool loaded_has_map(const struct loaded *loaded, const char *map)
{
	return loaded->object && bpf_object__find_map_by_name(loaded->object, map);
}

int loaded_also_fd(const struct loaded *loaded, const char *name)
{
	struct bpf_program *also = bpf_object__find_program_by_name(loaded->object, name);

	return also ? bpf_program__fd(also) : fail_because(0, name, "find", "no such program");
}

int loaded_set_element(const struct loaded *loaded, const char *map, unsigned int key,
		       const void *value)
{
	int fd = bpf_object__find_map_fd_by_name(loaded->object, map);

	if (fd < 0)
		return fail(-fd, map, "find map");
	if (bpf_map_update_elem(fd, &key, value, BPF_ANY))
		return fail(errno, map, "update map");
	return 0;
}

int loaded_set_map(const struct loaded *loaded, const char *map, unsigned int key,
		   unsigned int value)
{
	return loaded_set_element(loaded, map, key, &value);
}

void format_tag(const struct bpf_prog_info *info, char *text, size_t size)
{
	text[0] = '\0';
	for (size_t i = 0; i < BPF_TAG_SIZE && size > 2 * i + 2; i++)
		snprintf(text + 2 * i, size - 2 * i, "%02x", info->tag[i]);
}

int read_program_info(int fd, struct bpf_prog_info *info, __u64 *jited_addr)
{
	__u32 info_len = sizeof(*info);

	*jited_addr = 0;
	memset(info, 0, sizeof(*info));
	info->nr_jited_ksyms = 1;
	info->jited_ksyms = (__u64)(unsigned long)jited_addr;
	return bpf_obj_get_info_by_fd(fd, info, &info_len) ? -errno : 0;
}

json_t *describe_address(__u64 address)
{
	return address ? json_sprintf("0x%llx", address) : json_null();
}

json_t *loaded_describe(const struct loaded *loaded)
{
	struct bpf_prog_info info;
	__u64 jited_addr;
	char tag[TAG_TEXT_SIZE];

	if (loaded->fd < 0 || read_program_info(loaded->fd, &info, &jited_addr))
		return json_pack("{s:n, s:n, s:n}", "tag", "jited_addr", "jited_len");
	format_tag(&info, tag, sizeof(tag));
	return json_pack("{s:s, s:o, s:I}", "tag", tag, "jited_addr", describe_address(jited_addr),
			 "jited_len", (json_int_t)info.jited_prog_len);
}

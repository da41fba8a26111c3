// SPDX-License-Identifier: GPL-2.0-or-later
#include "xdp_errors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "../bpf/observe.h"
#include "error.h"
#include "offsets.h"
#include "xdp_errors_read.h"

static const struct {
	const char *tracepoint;
	const char *program;
	bool of_cpumap;
} points[] = {
	{"xdp_exception", "on_exception", false},
	{"xdp_redirect_err", "on_redirect_err", false},
	{"xdp_devmap_xmit", "on_devmap_xmit", false},
	{"xdp_cpumap_enqueue", "on_cpumap_enqueue", true},
	{"xdp_cpumap_kthread", "on_cpumap_kthread", true},
	{"napi_poll", "on_napi_poll", false},
};

#define POINTS (sizeof(points) / sizeof(points[0]))

struct xdp_errors {
	struct bpf_object *object;
	struct bpf_link *links[POINTS]; /* NULL: absent */
	struct observing observing;
};

/* The id of the trial's cpumap; 0: it has none. */
static __u32 find_cpumap(const struct loaded *program)
{
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info);
	struct bpf_map *map;

	bpf_object__for_each_map(
		map, program->object) if (bpf_map__type(map) == BPF_MAP_TYPE_CPUMAP &&
					  !bpf_obj_get_info_by_fd(bpf_map__fd(map), &info,
								  &len)) return info.id;
	return 0;
}

/* The id of the program that the trial runs on other CPUs; 0: it has none. */
static __u32 find_also(const struct loaded *loaded)
{
	struct bpf_program *program;
	struct bpf_prog_info info;
	__u64 jited_addr;

	bpf_object__for_each_program(program, loaded->object)
	{
		int fd = bpf_program__fd(program);

		if (fd >= 0 && fd != loaded->fd && !read_program_info(fd, &info, &jited_addr))
			return info.id;
	}
	return 0;
}

static void find_identity(const struct port *port, struct observe_knobs *knobs)
{
	struct bpf_prog_info info;
	struct stat netns;
	__u64 jited_addr;

	knobs->ifindex = port->link.ifindex;
	if (!stat("/proc/self/ns/net", &netns))
		knobs->netns = netns.st_ino;
	if (port->program.fd >= 0 && !read_program_info(port->program.fd, &info, &jited_addr))
		knobs->prog_id = info.id;
	if (!port->program.object)
		return;
	knobs->cpumap = find_cpumap(&port->program);
	knobs->also_id = find_also(&port->program);
}

static void find_offsets(struct observe_knobs *knobs)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int ns, inum;

	knobs->prog_aux = knobs->aux_id = -1;
	knobs->dev_ifindex = knobs->dev_net = knobs->net_inum = knobs->napi_dev = -1;
	if (!btf)
		return;
	knobs->prog_aux = find_offset(btf, "bpf_prog", "aux");
	knobs->aux_id = find_offset(btf, "bpf_prog_aux", "id");
	knobs->dev_ifindex = find_offset(btf, "net_device", "ifindex");
	knobs->dev_net = find_offset(btf, "net_device", "nd_net");
	ns = find_offset(btf, "net", "ns");
	inum = find_offset(btf, "ns_common", "inum");
	knobs->net_inum = ns < 0 || inum < 0 ? -1 : ns + inum;
	knobs->napi_dev = find_offset(btf, "napi_struct", "dev");
	btf__free(btf);
}

static int load(struct xdp_errors *errors, const struct observe_knobs *knobs)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "observe_errors");
	const struct object *object = &object_observe_errors;
	const struct image *image = &object->queues;
	struct bpf_map *rodata;
	int err;

	errors->object = bpf_object__open_mem(image->elf, image->end - image->elf, &opts);
	if (!errors->object)
		return fail(errno, object->name, "open");
	rodata = bpf_object__find_map_by_name(errors->object, ".rodata");
	err = bpf_map__set_initial_value(rodata, knobs, sizeof(*knobs));
	if (!err)
		err = bpf_object__load(errors->object);
	return err ? fail(-err, object->name, "load") : 0;
}

static int attach(struct xdp_errors *errors, size_t point, struct sampler *sampler)
{
	struct bpf_program *program =
		bpf_object__find_program_by_name(errors->object, points[point].program);
	char name[64];

	snprintf(name, sizeof(name), "%s.%s",
		 strncmp(points[point].tracepoint, "napi", 4) ? "xdp_errors" : "napi",
		 points[point].tracepoint);
	if (points[point].of_cpumap && !errors->observing.cpumap)
		return sampler_add_absent(sampler, name, "the case has no cpumap");
	errors->links[point] =
		bpf_program__attach_raw_tracepoint(program, points[point].tracepoint);
	if (errors->links[point])
		return 0;
	return sampler_add_absent(sampler, name,
				  errno == ENOENT ? "this kernel has no such tracepoint"
						  : strerror(errno));
}

static int create_observing(struct xdp_errors *errors, const struct observe_knobs *knobs)
{
	struct observing *observing = &errors->observing;

	observing->fd = bpf_object__find_map_fd_by_name(errors->object, "observed");
	observing->cpus = libbpf_num_possible_cpus();
	observing->cpumap = knobs->cpumap;
	observing->only_ours = knobs->prog_aux >= 0 && knobs->aux_id >= 0 &&
			       knobs->dev_ifindex >= 0 && knobs->dev_net >= 0 &&
			       knobs->net_inum >= 0 && knobs->napi_dev >= 0;
	observing->counts = calloc(observing->cpus, sizeof(*observing->counts));
	return observing->counts ? 0 : fail(ENOMEM, "observe_errors", "create");
}

struct xdp_errors *xdp_errors_create(const struct port *port, struct sampler *sampler)
{
	struct observe_knobs knobs = {0};
	struct xdp_errors *errors = calloc(1, sizeof(*errors));
	int result;

	if (!errors) {
		fail(ENOMEM, "observe_errors", "create");
		return NULL;
	}
	find_identity(port, &knobs);
	find_offsets(&knobs);
	result = load(errors, &knobs);
	if (!result)
		result = create_observing(errors, &knobs);
	for (size_t i = 0; !result && i < POINTS; i++)
		result = attach(errors, i, sampler);
	if (result) {
		xdp_errors_destroy(errors);
		return NULL;
	}
	sampler_add(sampler, (struct source){"xdp_errors", observing_take, observing_read_errors,
					     &errors->observing, .cheap = false});
	sampler_add(sampler, (struct source){"napi", observing_take, observing_read_polls,
					     &errors->observing, .cheap = false});
	return errors;
}

void xdp_errors_destroy(struct xdp_errors *errors)
{
	if (!errors)
		return;
	for (size_t i = 0; i < POINTS; i++)
		bpf_link__destroy(errors->links[i]);
	bpf_object__close(errors->object);
	free(errors->observing.counts);
	free(errors);
}

json_t *xdp_errors_describe(const struct xdp_errors *errors)
{
	json_t *attached = json_array();

	for (size_t i = 0; i < POINTS; i++)
		if (errors->links[i])
			json_array_append_new(attached, json_string(points[i].tracepoint));
	return json_pack("{s:o, s:b}", "attached", attached, "only_ours",
			 errors->observing.only_ours);
}

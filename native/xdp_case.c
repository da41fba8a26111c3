// SPDX-License-Identifier: GPL-2.0-or-later
#include "xdp_case.h"

#include <errno.h>
#include <stdio.h>

#include <bpf/bpf.h>

#include "error.h"

#define NO_BROADCAST "the kernel does not send one packet to several ports (5.13)"

static unsigned int last_cpu(const struct xdp_spec *xdp)
{
	int last = 0;

	for (size_t i = 0; i < xdp->cpus_len; i++)
		last = xdp->cpus[i] > last ? xdp->cpus[i] : last;
	return last;
}

/* Before 5.9 a cpumap takes no value with a program in it. */
static int size_cpus(struct bpf_map *cpus, const struct xdp_spec *xdp)
{
	int err = bpf_map__set_max_entries(cpus, last_cpu(xdp) + 1);

	if (!err && xdp->remote == REMOTE_NONE)
		err = bpf_map__set_value_size(cpus, sizeof(__u32));
	return err;
}

static int size_maps(const void *context, struct bpf_object *object)
{
	const struct spec *spec = context;
	struct bpf_map *ports = bpf_object__find_map_by_name(object, "ports");
	struct bpf_map *cpus = bpf_object__find_map_by_name(object, "cpus");
	int err = 0;

	if (spec->test_case->egress == EGRESS_SLOTS)
		err = bpf_map__set_max_entries(ports, spec->xdp.fanout);
	if (spec->test_case->egress == EGRESS_CPUS)
		err = size_cpus(cpus, &spec->xdp);
	return err ? fail(-err, spec->test_case->name, "set sizes of maps") : 0;
}

static void choose_cpus(struct xdp_case *xdp_case, const struct xdp_spec *xdp,
			struct load_options *options)
{
	xdp_case->cpus.len = xdp->cpus_len;
	for (size_t i = 0; i < xdp->cpus_len; i++)
		xdp_case->cpus.cpus[i] = xdp->cpus[i];
	options->knobs = &xdp_case->cpus;
	options->knobs_size = sizeof(xdp_case->cpus);
	if (xdp->select == SELECT_L4_HASH)
		xdp_case->program.name = "xdp_redirect_cpu_l4_hash";
	if (xdp->remote == REMOTE_NONE)
		return;
	snprintf(xdp_case->remote_name, sizeof(xdp_case->remote_name), "xdp_remote_%s",
		 remote_names[xdp->remote]);
	options->also = xdp_case->remote_name;
	options->needs = "a program on the other CPU of a cpumap needs Linux 5.9";
}

void xdp_case_choose(struct xdp_case *xdp_case, const struct spec *spec,
		     struct load_options *options)
{
	const struct xdp_spec *xdp = &spec->xdp;

	xdp_case->program = *spec->test_case->program;
	if (spec->test_case->egress == EGRESS_SLOTS || spec->test_case->egress == EGRESS_CPUS) {
		options->prepare = size_maps;
		options->context = spec;
	}
	if (spec->test_case->egress == EGRESS_CPUS)
		choose_cpus(xdp_case, xdp, options);
	if (xdp->access == ACCESS_LOAD_BYTES) {
		snprintf(xdp_case->program_name, sizeof(xdp_case->program_name), "%s_load_bytes",
			 xdp_case->program.name);
		xdp_case->program.name = xdp_case->program_name;
		options->needs = "helpers that copy a packet's bytes need Linux 5.18";
	}
	if (!xdp->frags)
		return;
	options->flags |= BPF_F_XDP_HAS_FRAGS;
	options->needs = "packets in fragments need Linux 5.18";
}

/* An old kernel takes the flag as an error of each packet: so one is tried, which goes nowhere. */
static int try_broadcast(const struct loaded *loaded, const struct spec *spec)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	char frame[64] = {0};

	opts.data_in = frame;
	opts.data_size_in = sizeof(frame);
	opts.repeat = 1;
	if (bpf_prog_test_run_opts(loaded->fd, &opts))
		return fail(errno, spec->test_case->name, "try");
	return opts.retval == XDP_REDIRECT
		       ? 0
		       : fail_because(EOPNOTSUPP, spec->test_case->name, "load", NO_BROADCAST);
}

static int fill_slots(const struct loaded *loaded, const struct spec *spec, int ifindex)
{
	int result = 0;

	for (int slot = 0; !result && slot < spec->xdp.fanout; slot++)
		result = loaded_set_map(loaded, "ports", slot, ifindex);
	return result ? result : try_broadcast(loaded, spec);
}

static int fill_cpus(const struct loaded *loaded, const struct spec *spec, int ifindex)
{
	const struct xdp_spec *xdp = &spec->xdp;
	struct bpf_cpumap_val value = {.qsize = xdp->qsize};
	char name[32];
	int result = 0;

	if (xdp->remote != REMOTE_NONE) {
		snprintf(name, sizeof(name), "xdp_remote_%s", remote_names[xdp->remote]);
		value.bpf_prog.fd = loaded_also_fd(loaded, name);
		if (value.bpf_prog.fd < 0)
			return value.bpf_prog.fd;
	}
	if (xdp->remote == REMOTE_REDIRECT)
		result = loaded_set_map(loaded, "ports", 0, ifindex);
	for (size_t i = 0; !result && i < xdp->cpus_len; i++) {
		result = loaded_set_element(loaded, "cpus", xdp->cpus[i], &value);
		if (result == -ENODEV)
			fail_because(ENODEV, "xdp.cpus", "update map", "there is no CPU %d",
				     xdp->cpus[i]);
	}
	return result;
}

int xdp_case_fill_maps(const struct loaded *loaded, const struct spec *spec,
		       const struct link *egress)
{
	switch (spec->test_case->egress) {
	case EGRESS_MAP:
		return loaded_set_map(loaded, "ports", 0, egress->ifindex);
	case EGRESS_SLOTS:
		return fill_slots(loaded, spec, egress->ifindex);
	case EGRESS_CPUS:
		return fill_cpus(loaded, spec, egress->ifindex);
	default:
		return 0;
	}
}

static json_t *read_slots(const struct loaded *loaded, const struct spec *spec)
{
	int fd = bpf_object__find_map_fd_by_name(loaded->object, "ports");
	json_t *list = json_array();
	__u32 ifindex;

	for (int slot = 0; slot < spec->xdp.fanout; slot++)
		if (!bpf_map_lookup_elem(fd, &slot, &ifindex))
			json_array_append_new(list, json_integer(ifindex));
	return json_pack("{s:o}", "ports", list);
}

static json_t *read_cpus(const struct loaded *loaded, const struct spec *spec)
{
	int fd = bpf_object__find_map_fd_by_name(loaded->object, "cpus");
	struct bpf_cpumap_val value = {0};
	json_t *list = json_array();

	for (size_t i = 0; i < spec->xdp.cpus_len; i++)
		if (!bpf_map_lookup_elem(fd, &spec->xdp.cpus[i], &value))
			json_array_append_new(list,
					      json_pack("{s:i, s:I, s:I}", "cpu", spec->xdp.cpus[i],
							"qsize", (json_int_t)value.qsize, "prog_id",
							(json_int_t)value.bpf_prog.id));
	return json_pack("{s:o}", "cpus", list);
}

int xdp_case_describe(const struct loaded *loaded, const struct spec *spec, json_t *ready)
{
	json_t *read = NULL;

	if (spec->test_case->egress == EGRESS_SLOTS)
		read = read_slots(loaded, spec);
	else if (spec->test_case->egress == EGRESS_CPUS)
		read = read_cpus(loaded, spec);
	else
		return 0;
	return json_object_set_new(ready, "xdp", read) ? fail(ENOMEM, "xdp", "describe") : 0;
}

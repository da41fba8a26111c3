// SPDX-License-Identifier: GPL-2.0-or-later
#include "dut_port.h"

static int find_egress(const struct spec *spec, struct link *egress)
{
	return link_read(spec->egress_ifname[0] ? spec->egress_ifname : spec->ifname, egress);
}

static int fill_maps(struct port *port, const struct link *egress, const struct spec *spec)
{
	if (spec->test_case->egress == EGRESS_MAP)
		return loaded_set_map(&port->program, "ports", 0, egress->ifindex);
	return port->work ? work_fill_maps(port->work, &port->program) : 0;
}

static int create_work(const struct spec *spec, struct load_options *options,
		       struct work_state **work)
{
	*work = NULL;
	if (!spec->test_case->work)
		return 0;
	options->prepare = work_prepare;
	return work_create(work, spec->test_case->work, &spec->work);
}

int dut_port_create(struct port *port, struct link *egress, const struct spec *spec)
{
	const struct test_case *test_case = spec->test_case;
	struct redirect_knobs redirect;
	struct spread_knobs spread;
	struct load_options options = {0};
	const struct program *program = test_case->program;
	struct work_state *work;
	int result = find_egress(spec, egress);

	if (!result)
		result = create_work(spec, &options, &work);
	if (result)
		return result;
	options.context = work;
	redirect.egress_ifindex = egress->ifindex;
	if (test_case->egress == EGRESS_KNOB) {
		options.knobs = &redirect;
		options.knobs_size = sizeof(redirect);
	}
	if (spec->xsk.sockets > 1 && test_case->spread) {
		spread = (struct spread_knobs){spec->xsk.sockets - 1,
					       __builtin_ctz(spec->xsk.sockets)};
		options.knobs = &spread;
		options.knobs_size = sizeof(spread);
		program = test_case->spread;
	}
	if (spec->xsk.frags)
		options.flags |= BPF_F_XDP_HAS_FRAGS;
	result = port_create(port, spec->ifname, program, &options);
	port->work = work;
	if (!result)
		result = fill_maps(port, egress, spec);
	if (result)
		port_destroy(port);
	return result;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "dut_port.h"

#include "error.h"
#include "xdp_case.h"

static int find_egress(const struct spec *spec, struct link *egress)
{
	return link_read(spec->egress_ifname[0] ? spec->egress_ifname : spec->ifname, egress);
}

static int fill_maps(struct port *port, const struct link *egress, const struct spec *spec)
{
	int result = xdp_case_fill_maps(&port->program, spec, egress);

	if (result)
		return result;
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

static const struct program spread_program = {&object_xsk_redirect, "xsk_spread"};

/* Several sockets of a queue want a program that takes them in turn. */
static const struct program *choose_program(const struct spec *spec)
{
	const struct program *program = spec->test_case->program;
	bool redirects = program && program->object == &object_xsk_redirect;

	return redirects && spec->xsk.sockets > 1 ? &spread_program : program;
}

static struct spread_knobs make_spread(const struct spec *spec)
{
	int sockets = spec->xsk.sockets;

	return (struct spread_knobs){
		.sockets_mask = sockets - 1,
		.sockets_shift = sockets ? __builtin_ctz(sockets) : 0,
	};
}

static int check_sockets(const struct port *port, const struct spec *spec)
{
	if (spec->xsk.sockets <= 1 || !loaded_has_map(&port->program, "sockets"))
		return 0;
	return fail_usage("spec", "xsk.sockets", "%d is not 1, as the program of %s has one",
			  spec->xsk.sockets, spec->test_case->name);
}

/* How the program is loaded, and all that the options refer to. */
struct loading {
	const struct program *program;
	struct load_options options;
	struct redirect_knobs redirect;
	struct spread_knobs spread;
	struct xdp_case xdp_case;
};

static void set_knobs(struct load_options *options, const void *knobs, size_t knobs_size)
{
	options->knobs = knobs;
	options->knobs_size = knobs_size;
}

static void choose_loading(struct loading *loading, const struct spec *spec,
			   const struct link *egress)
{
	const struct test_case *test_case = spec->test_case;
	struct load_options *options = &loading->options;

	loading->program = choose_program(spec);
	loading->redirect.egress_ifindex = egress->ifindex;
	loading->spread = make_spread(spec);
	if (test_case->egress == EGRESS_KNOB)
		set_knobs(options, &loading->redirect, sizeof(loading->redirect));
	if (loading->program != test_case->program)
		set_knobs(options, &loading->spread, sizeof(loading->spread));
	if (spec->xsk.frags) {
		options->flags |= BPF_F_XDP_HAS_FRAGS;
		options->needs = "packets in fragments need Linux 5.18, and 6.6 to reach a socket";
	}
	if (!(test_case->sections & SECTION_XDP))
		return;
	xdp_case_choose(&loading->xdp_case, spec, options);
	loading->program = &loading->xdp_case.program;
}

int dut_port_create(struct port *port, struct link *egress, const struct spec *spec)
{
	struct loading loading = {0};
	struct work_state *work;
	int result = find_egress(spec, egress);

	if (!result)
		result = create_work(spec, &loading.options, &work);
	if (result)
		return result;
	loading.options.context = work;
	choose_loading(&loading, spec, egress);
	result = port_create(port, spec->ifname, loading.program, &loading.options);
	port->work = work;
	if (!result && loading.program == spec->test_case->program)
		result = check_sockets(port, spec);
	if (!result)
		result = fill_maps(port, egress, spec);
	if (result)
		port_destroy(port);
	return result;
}

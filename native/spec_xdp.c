// SPDX-License-Identifier: GPL-2.0-or-later
#include "spec_section.h"

static const char *const access_names[] = {"pointer", "load-bytes", NULL};
static const char *const select_names[] = {"round-robin", "l4-hash", NULL};
const char *const remote_names[] = {"none", "drop", "pass", "redirect", NULL};

#define FANOUT_MAX 32
#define QSIZE_MAX 16384 /* of the kernel */

static const char *const xdp_keys[] = {"access", "frags", NULL};
static const char *const slots_keys[] = {"access", "frags", "fanout", NULL};
static const char *const cpus_keys[] = {"frags", "cpus", "qsize", "select", "remote", NULL};

static const char *const *find_keys(const struct test_case *test_case)
{
	if (test_case->egress == EGRESS_CPUS)
		return cpus_keys;
	return test_case->egress == EGRESS_SLOTS ? slots_keys : xdp_keys;
}

static bool has(const struct section *section, const char *key)
{
	return json_object_get(section->object, key);
}

static int parse_access(const struct section *section, const struct spec *spec,
			struct xdp_spec *xdp)
{
	int result = has(section, "access")
			     ? read_choice(section, "access", access_names, &xdp->access)
			     : 0;

	if (!result && xdp->access == ACCESS_LOAD_BYTES && !spec->test_case->load_bytes)
		result = bad_value(section, "access", "of use to a program that touches nothing");
	return result;
}

/* Whose packets come back is a forwarder, and whose do not is none. */
static int parse_remote(const struct section *section, const struct spec *spec,
			struct xdp_spec *xdp)
{
	bool forwards = spec->role == ROLE_FORWARD;

	if (has(section, "remote")) {
		int result = read_choice(section, "remote", remote_names, &xdp->remote);

		if (result)
			return result;
	}
	if (forwards == (xdp->remote == REMOTE_REDIRECT))
		return 0;
	return bad_value(section, "remote",
			 forwards ? "redirect, as the role forward wants"
				  : "none, drop or pass, as the role sink wants");
}

static int parse_cpus(const struct section *section, const struct spec *spec, struct xdp_spec *xdp)
{
	int result = read_int_list(section, "cpus", MAX_CPUS - 1, xdp->cpus, &xdp->cpus_len);

	if (!result && xdp->cpus_len > CPUS_MAX)
		result = bad_value(section, "cpus", "a list of 256 at most");
	if (!result && has(section, "qsize"))
		result = read_small(section, "qsize", 1, QSIZE_MAX, &xdp->qsize);
	if (!result && has(section, "select"))
		result = read_choice(section, "select", select_names, &xdp->select);
	return result ? result : parse_remote(section, spec, xdp);
}

int parse_xdp(const struct section *top, struct spec *spec)
{
	struct xdp_spec *xdp = &spec->xdp;
	bool to_cpus = spec->test_case->egress == EGRESS_CPUS;
	struct section section;
	int result;

	*xdp = (struct xdp_spec){.fanout = 2, .qsize = 2048};
	if (!has(top, "xdp") && !to_cpus)
		return 0;
	result = read_section(top, "xdp", "xdp.", &section);
	if (!result)
		result = section_check_keys(&section, find_keys(spec->test_case));
	if (!result)
		result = parse_access(&section, spec, xdp);
	if (!result && has(&section, "frags"))
		result = read_bool(&section, "frags", &xdp->frags);
	if (!result && has(&section, "fanout"))
		result = read_small(&section, "fanout", 1, FANOUT_MAX, &xdp->fanout);
	if (!result && to_cpus)
		result = parse_cpus(&section, spec, xdp);
	return result;
}

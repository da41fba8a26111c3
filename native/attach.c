// SPDX-License-Identifier: GPL-2.0-or-later
#include "attach.h"

#include <errno.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/if_link.h>

#include "error.h"
#include "load.h"
#include "spec.h"

static int fail_attach(int err, const char *ifname)
{
	int result = fail(err, ifname, "attach");

	if (err == EBUSY || err == EEXIST)
		fail_hint(result, "another XDP program is attached: see 'ip link show dev %s'",
			  ifname);
	if (err == ERANGE)
		fail_hint(result, "its MTU is too large for native XDP: set a smaller one, or "
				  "measure with frags = true where the driver has it");
	return result;
}

int attachment_create(struct attachment *attachment, const char *ifname, int ifindex, int prog_fd,
		      int attach_mode)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts);
	struct bpf_prog_info info = {0};
	__u32 info_len = sizeof(info);

	opts.flags = attach_mode == ATTACH_NATIVE ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
	attachment->ifname = ifname;
	attachment->ifindex = ifindex;
	attachment->attach_mode = attach_mode;
	attachment->link_fd = -1;
	if (prog_fd < 0)
		return 0;
	if (bpf_obj_get_info_by_fd(prog_fd, &info, &info_len))
		return fail(errno, ifname, "read program");
	attachment->prog_id = info.id;
	attachment->link_fd = bpf_link_create(prog_fd, ifindex, BPF_XDP, &opts);
	if (attachment->link_fd >= 0)
		return 0;
	return fail_attach(errno, ifname);
}

void attachment_destroy(struct attachment *attachment)
{
	if (attachment->link_fd >= 0)
		close(attachment->link_fd);
	attachment->link_fd = -1;
}

const char *attach_mode_name(unsigned int mode)
{
	switch (mode) {
	case XDP_ATTACHED_NONE:
		return NULL;
	case XDP_ATTACHED_DRV:
		return attach_mode_names[ATTACH_NATIVE];
	case XDP_ATTACHED_SKB:
		return attach_mode_names[ATTACH_SKB];
	case XDP_ATTACHED_HW:
		return "hw";
	default:
		return "multi";
	}
}

static int verify_none(const struct attachment *attachment, __u32 prog_id, json_t **attach)
{
	if (prog_id)
		return fail_because(0, attachment->ifname, "verify",
				    "program %u is attached, and the case has none", prog_id);
	*attach = NULL;
	return 0;
}

int attachment_verify(const struct attachment *attachment, json_t **attach)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, port);
	struct bpf_prog_info info;
	__u64 jited_addr;
	char tag[TAG_TEXT_SIZE];
	const char *mode;
	int err, fd;

	err = bpf_xdp_query(attachment->ifindex, 0, &port);
	if (err)
		return fail(-err, attachment->ifname, "query XDP");
	mode = attach_mode_name(port.attach_mode);
	if (!attachment->prog_id)
		return verify_none(attachment, port.prog_id, attach);
	if (!mode)
		return fail_because(0, attachment->ifname, "verify",
				    "program %u is not attached any more", attachment->prog_id);
	if (port.prog_id != attachment->prog_id ||
	    mode != attach_mode_names[attachment->attach_mode])
		return fail_because(0, attachment->ifname, "verify",
				    "program %u in mode %s is attached, not program %u in mode %s",
				    port.prog_id, mode, attachment->prog_id,
				    attach_mode_names[attachment->attach_mode]);
	fd = bpf_prog_get_fd_by_id(port.prog_id);
	if (fd < 0)
		return fail(errno, attachment->ifname, "open program");
	err = read_program_info(fd, &info, &jited_addr);
	close(fd);
	if (err)
		return fail(-err, attachment->ifname, "read program");
	format_tag(&info, tag, sizeof(tag));
	*attach = json_pack("{s:s, s:i, s:s, s:I, s:s, s:s, s:I, s:o, s:I}", "ifname",
			    attachment->ifname, "ifindex", attachment->ifindex, "attach_mode", mode,
			    "prog_id", (json_int_t)info.id, "prog_tag", tag, "prog_name", info.name,
			    "xlated_len", (json_int_t)info.xlated_prog_len, "jited_addr",
			    describe_address(jited_addr), "jited_len",
			    (json_int_t)info.jited_prog_len);
	return *attach ? 0 : fail(ENOMEM, attachment->ifname, "describe program");
}

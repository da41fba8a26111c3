// SPDX-License-Identifier: GPL-2.0-or-later
#include "tc_hook.h"

#include <errno.h>
#include <linux/pkt_cls.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"

#define HANDLE 1
#define PRIORITY 1
#define OUR_NAMES "tc_" /* how our programs, and their names in the kernel, begin */

static struct bpf_tc_hook at_ingress(const struct link *link)
{
	return (struct bpf_tc_hook){.sz = sizeof(struct bpf_tc_hook),
				    .ifindex = link->ifindex,
				    .attach_point = BPF_TC_INGRESS};
}

unsigned int tc_hook_program(const struct tc_hook *hook)
{
	struct bpf_tc_hook ingress = at_ingress(hook->link);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = HANDLE, .priority = PRIORITY);

	return bpf_tc_query(&ingress, &opts) ? 0 : opts.prog_id;
}

/* A name in the abstract space of our network namespace goes when its socket does. */
static int lock(struct tc_hook *hook)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int len = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "xdprepro-tc-%d",
			   hook->link->ifindex);

	hook->lock_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (hook->lock_fd < 0)
		return fail(errno, hook->link->ifname, "lock TC");
	if (!bind(hook->lock_fd, (struct sockaddr *)&name,
		  offsetof(struct sockaddr_un, sun_path) + 1 + len))
		return 0;
	if (errno == EADDRINUSE)
		return fail_because(EBUSY, hook->link->ifname, "lock TC",
				    "another agent has a program at TC ingress");
	return fail(errno, hook->link->ifname, "lock TC");
}

static bool is_ours(unsigned int prog_id)
{
	struct bpf_prog_info info = {0};
	__u32 len = sizeof(info);
	int fd = prog_id ? bpf_prog_get_fd_by_id(prog_id) : -1;
	bool ours;

	if (fd < 0)
		return false;
	ours = !bpf_obj_get_info_by_fd(fd, &info, &len) &&
	       !strncmp(info.name, OUR_NAMES, strlen(OUR_NAMES));
	close(fd);
	return ours;
}

static int destroy_qdisc(const struct link *link)
{
	struct bpf_tc_hook hook = at_ingress(link);

	hook.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS;
	return bpf_tc_hook_destroy(&hook);
}

static int create_qdisc(struct tc_hook *hook)
{
	struct bpf_tc_hook ingress = at_ingress(hook->link);
	int err = bpf_tc_hook_create(&ingress);
	int result;

	if (err == -EEXIST && is_ours(tc_hook_program(hook)) && !destroy_qdisc(hook->link))
		err = bpf_tc_hook_create(&ingress);
	hook->made = !err;
	if (!err)
		return 0;
	result = fail(-err, hook->link->ifname, "add clsact");
	if (err == -EEXIST)
		fail_hint(result, "somebody else's is there: 'tc qdisc del dev %s clsact'",
			  hook->link->ifname);
	if (err == -ENOENT)
		fail_hint(result, "this kernel lacks CONFIG_NET_SCH_INGRESS");
	return result;
}

static int attach(struct tc_hook *hook, int prog_fd)
{
	struct bpf_tc_hook ingress = at_ingress(hook->link);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = HANDLE, .priority = PRIORITY, .prog_fd = prog_fd);
	int err = bpf_tc_attach(&ingress, &opts);
	int result;

	if (!err)
		return 0;
	result = fail(-err, hook->link->ifname, "attach to TC");
	return err == -ENOENT ? fail_hint(result, "this kernel lacks CONFIG_NET_CLS_BPF") : result;
}

int tc_hook_create(struct tc_hook *hook, const struct link *link, int prog_fd)
{
	int result;

	*hook = (struct tc_hook){.link = link, .lock_fd = -1};
	result = lock(hook);
	if (!result)
		result = create_qdisc(hook);
	if (!result)
		result = attach(hook, prog_fd);
	if (result)
		tc_hook_destroy(hook);
	return result;
}

void tc_hook_destroy(struct tc_hook *hook)
{
	if (!hook->link)
		return;
	if (hook->made)
		destroy_qdisc(hook->link);
	hook->made = false;
	if (hook->lock_fd >= 0)
		close(hook->lock_fd);
	hook->lock_fd = -1;
}

int tc_hook_try(const struct link *link)
{
	const struct bpf_insn pass[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = TC_ACT_OK},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int prog_fd = bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, OUR_NAMES "pass", "GPL", pass,
				    sizeof(pass) / sizeof(pass[0]), NULL);
	struct tc_hook hook;
	int result;

	if (prog_fd < 0)
		return fail(errno, link->ifname, "load TC program");
	result = tc_hook_create(&hook, link, prog_fd);
	if (!result)
		tc_hook_destroy(&hook);
	close(prog_fd);
	return result;
}

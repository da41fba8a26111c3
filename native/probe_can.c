// SPDX-License-Identifier: GPL-2.0-or-later
/* What a port can do: each try asks the kernel for the thing itself, and gives it back. */
#include <errno.h>
#include <linux/perf_event.h>
#include <mntent.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "attach.h"
#include "error.h"
#include "live_frames.h"
#include "load.h"
#include "frame.h"
#include "packet_ring.h"
#include "probe.h"
#include "tc_hook.h"
#include "xdp_case.h"
#include "xsk.h"

/* As few frames as the kernel takes: it is the mode that is tried. */
#define TRY_FRAMES 64

static int check_free(const struct link *link)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, port);
	int err = bpf_xdp_query(link->ifindex, 0, &port);

	if (err)
		return fail(-err, link->ifname, "query XDP");
	if (port.attach_mode == XDP_ATTACHED_NONE)
		return 0;
	return fail_because(EBUSY, link->ifname, "attach",
			    "busy: program %u is attached in mode %s", port.prog_id,
			    attach_mode_name(port.attach_mode));
}

static int try_attach(const struct link *link, int attach_mode, unsigned int prog_flags)
{
	const struct load_options options = {.flags = prog_flags};
	struct attachment attachment;
	struct loaded program;
	json_t *attach = NULL;
	int result = check_free(link);

	if (!result)
		result = loaded_create(&program, program_pass, &options);
	if (result)
		return result;
	result = attachment_create(&attachment, link->ifname, link->ifindex, program.fd,
				   attach_mode);
	if (!result)
		result = attachment_verify(&attachment, &attach);
	json_decref(attach);
	attachment_destroy(&attachment);
	loaded_destroy(&program);
	return result;
}

static int try_native(const struct link *link)
{
	return try_attach(link, ATTACH_NATIVE, 0);
}

static int try_skb(const struct link *link)
{
	return try_attach(link, ATTACH_SKB, 0);
}

static int try_multi_buffer(const struct link *link)
{
	return try_attach(link, ATTACH_NATIVE, BPF_F_XDP_HAS_FRAGS);
}

static int try_xsk(const struct link *link, int bind_mode)
{
	const struct xsk_spec spec = {
		.bind_mode = bind_mode,
		.ring_rx = TRY_FRAMES,
		.ring_tx = TRY_FRAMES,
		.ring_fill = TRY_FRAMES,
		.ring_completion = TRY_FRAMES,
		.frames = TRY_FRAMES,
		.frame_size = XSK_UMEM__DEFAULT_FRAME_SIZE,
		.sockets = 1,
	};

	return xsk_try(link->ifname, &spec);
}

static int try_xsk_copy(const struct link *link)
{
	return try_xsk(link, BIND_COPY);
}

static int try_xsk_zero_copy(const struct link *link)
{
	return try_xsk(link, BIND_ZERO_COPY);
}

/* Load the program of a case and fill its maps, all but attach it. */
static int try_case(const struct link *link, const char *name, const struct xdp_spec *xdp)
{
	struct spec spec = {.test_case = find_case(name), .xdp = *xdp};
	struct load_options options = {0};
	struct xdp_case xdp_case;
	struct loaded loaded;
	int result;

	xdp_case_choose(&xdp_case, &spec, &options);
	result = loaded_create(&loaded, &xdp_case.program, &options);
	if (result)
		return result;
	result = xdp_case_fill_maps(&loaded, &spec, link);
	loaded_destroy(&loaded);
	return result;
}

static int try_load_bytes(const struct link *link)
{
	const struct xdp_spec xdp = {.access = ACCESS_LOAD_BYTES};

	return try_case(link, "xdp.drop.swap-macs", &xdp);
}

static int try_redirect_multi(const struct link *link)
{
	const struct xdp_spec xdp = {.fanout = 1};

	return try_case(link, "xdp.redirect-multi.swap-macs", &xdp);
}

static int try_redirect_cpu(const struct link *link)
{
	const struct xdp_spec xdp = {
		.cpus = {sched_getcpu()},
		.cpus_len = 1,
		.qsize = 1,
		.remote = REMOTE_DROP,
	};

	return try_case(link, "xdp.redirect-cpu.no-touch", &xdp);
}

/* One of them, which is more than a kernel without a reserve has. */
static int try_huge_pages(const struct link *link)
{
	const struct xsk_spec spec = {.huge_pages = true, .frames = 1, .frame_size = 4096};
	struct umem umem;
	int result = umem_create(&umem, &spec, link->ifname, 1);

	if (!result)
		umem_destroy(&umem);
	return result;
}

static int try_live_frames(const struct link *link)
{
	return live_frames_try(link->ifname);
}

static int try_af_packet(const struct link *link)
{
	struct packet_ring *ring = packet_ring_create(link->ifname, link->ifindex, FRAME_LEN_MIN);

	packet_ring_destroy(ring);
	return ring ? 0 : fail_result();
}

static int try_busy_poll(const struct link *link)
{
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	int one = 1, result = 0;

	if (fd < 0)
		return fail(errno, link->ifname, "AF_XDP socket");
	if (setsockopt(fd, SOL_SOCKET, SO_PREFER_BUSY_POLL, &one, sizeof(one)))
		result = fail(errno, link->ifname, "SO_PREFER_BUSY_POLL");
	close(fd);
	return result;
}

static int try_pmu(const struct link *link)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_CPU_CYCLES,
	};
	int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	(void)link;
	if (fd < 0 && errno == ENOENT)
		return fail_because(ENOENT, "cycles", "perf_event_open",
				    "no hardware counter for them");
	if (fd < 0)
		return fail(errno, "cycles", "perf_event_open");
	close(fd);
	return 0;
}

static int try_resctrl(const struct link *link)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	struct mntent *entry;
	bool mounted = false;

	(void)link;
	if (!mounts)
		return fail(errno, "/proc/self/mounts", "open");
	while (!mounted && (entry = getmntent(mounts)))
		mounted = !strcmp(entry->mnt_type, "resctrl");
	endmntent(mounts);
	return mounted ? 0 : fail_because(0, "resctrl", "find", "no such file system is mounted");
}

static const struct {
	const char *name;
	int (*try)(const struct link *link);
} tries[] = {
	{"xdp_native", try_native},
	{"xdp_skb", try_skb},
	{"multi_buffer", try_multi_buffer},
	{"load_bytes", try_load_bytes},
	{"redirect_multi", try_redirect_multi},
	{"redirect_cpu", try_redirect_cpu},
	{"xsk_copy", try_xsk_copy},
	{"xsk_zero_copy", try_xsk_zero_copy},
	{"huge_pages", try_huge_pages},
	{"live_frames", try_live_frames},
	{"af_packet", try_af_packet},
	{"tc", tc_hook_try},
	{"busy_poll", try_busy_poll},
	{"pmu", try_pmu},
	{"resctrl", try_resctrl},
};

json_t *probe_can(const struct link *link)
{
	json_t *can = json_object();
	char reason[600];

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		json_t *result = json_pack("{s:b}", "ok", 1);

		if (tries[i].try(link)) {
			snprintf(reason, sizeof(reason), "%s: %s: %s", failure.object, failure.step,
				 failure.reason);
			json_object_set_new(result, "ok", json_false());
			json_object_set_new(result, "reason", json_string(reason));
		}
		json_object_set_new(can, tries[i].name, result);
	}
	return can;
}

json_t *probe_xdp(const struct link *link)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, port);
	int err = bpf_xdp_query(link->ifindex, 0, &port);

	if (err)
		return json_pack("{s:n, s:n, s:n, s:s}", "attached", "attach_mode", "prog_id",
				 "reason", strerror(-err));
	return json_pack("{s:b, s:s?, s:I}", "attached", port.attach_mode != XDP_ATTACHED_NONE,
			 "attach_mode", attach_mode_name(port.attach_mode), "prog_id",
			 (json_int_t)port.prog_id);
}

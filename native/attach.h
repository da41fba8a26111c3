/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_ATTACH_H
#define XDPREPRO_ATTACH_H

#include <jansson.h>
#include <linux/types.h>

/* A program on a port, held by a BPF link: it is gone when this process is. */
struct attachment {
	const char *ifname;
	int ifindex;
	int attach_mode; /* enum attach_mode, asked for */
	int link_fd;
	__u32 prog_id;
};

/* Without a program (prog_fd -1) nothing is attached. */
int attachment_create(struct attachment *attachment, const char *ifname, int ifindex, int prog_fd,
		      int attach_mode);
void attachment_destroy(struct attachment *attachment);

/*
 * What the kernel says is attached, as the protocol's `attach` object. Another program or mode than
 * the one asked for is a failure. NULL, where none was asked for and none is there.
 */
int attachment_verify(const struct attachment *attachment, json_t **attach);

/* The word for the kernel's XDP_ATTACHED_*; NULL for none. */
const char *attach_mode_name(unsigned int mode);

#endif

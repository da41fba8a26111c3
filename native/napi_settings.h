/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_NAPI_SETTINGS_H
#define XDPREPRO_NAPI_SETTINGS_H

#include <jansson.h>
#include <net/if.h>

/*
 * What busy polling wants of a port: interrupts put off (napi_defer_hard_irqs) and a timer in their
 * place (gro_flush_timeout). The values before are noted in a file below /run, which is locked as
 * long as we live: whoever finds it unlocked knows that an agent was killed, and puts them back.
 */
struct napi_settings {
	char ifname[IF_NAMESIZE];
	int note_fd;  /* -1: nothing is held */
	int sysfs_fd; /* the directory of the port, in this network namespace */
	char note[96];
};

#define NAPI_SETTINGS_NONE {.note_fd = -1, .sysfs_fd = -1}

int napi_settings_hold(struct napi_settings *settings, const char *ifname);
void napi_settings_put_back(struct napi_settings *settings);

/* Put back what an agent that was killed left behind on this port; nothing was: nothing happens. */
int napi_settings_mend(const char *ifname);

/* As read back from the kernel. */
int napi_settings_describe(const struct napi_settings *settings, json_t **object);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XDPREPRO_APP_H
#define XDPREPRO_APP_H

#include <jansson.h>

#include "port.h"
#include "sample.h"
#include "spec.h"

/* What a kind of application makes of it is its own affair: each file casts. */
struct app;

/*
 * A case's part in user space. An application that receives goes on until it is destroyed, so that
 * nothing is left in its rings; one that transmits sends between go() and stop().
 */
struct app_ops {
	/* Bind, open, fill; the program is loaded and not attached yet. */
	int (*create)(const struct spec *spec, struct port *port, struct app **app);
	int (*start)(struct app *app);          /* threads; before the program is attached */
	void (*go)(struct app *app);            /* to transmit; NULL of all others */
	int (*ended_fd)(const struct app *app); /* readable once its `count` is sent; NULL: never */
	void (*stop)(struct app *app); /* to transmit; returns when all is handed over; NULL */
	/* Add to the `ready` message what was read back from the kernel. */
	int (*describe)(const struct app *app, json_t *ready);
	void (*add_sources)(struct app *app, struct sampler *sampler);
	void (*destroy)(struct app *app);
};

#endif

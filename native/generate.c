// SPDX-License-Identifier: GPL-2.0-or-later
/* The role `generate`: the tester. */
#include <errno.h>
#include <linux/if_ether.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "command.h"
#include "drain.h"
#include "error.h"
#include "frame.h"
#include "generator.h"
#include "observers.h"
#include "out.h"
#include "promiscuous.h"
#include "trial.h"

/* How long drivers may take to show in their counters what they sent. */
#define ACCEPT_BUDGET_NS (3 * NS_PER_S)
#define ACCEPT_STEP_NS (100 * NS_PER_MS)

/* Send until told to stop or until all is sent; `next` is then COMMAND_STOP, EVENT or FINISH. */
static int send_and_sample(const struct spec *spec, struct generator *generator,
			   struct sampler *sampler, enum command *next)
{
	int64_t deadline_ns = now_ns();
	int result;

	generator_go(generator);
	do {
		result = sampler_sample(sampler, "measure");
		deadline_ns += spec->interval_ns;
		if (!result)
			result = command_wait(deadline_ns, generator->event_fd, next);
		if (!result && *next == COMMAND_GO)
			result = fail_usage("stdin", "command", "go, but it is going already");
	} while (!result && *next == COMMAND_TIMEOUT);
	return result;
}

static int wait_for_finish(enum command next)
{
	int result = 0;

	while (!result && next != COMMAND_FINISH) {
		result = command_wait(NO_DEADLINE, -1, &next);
		if (!result && next == COMMAND_GO)
			result = fail_usage("stdin", "command", "go, but it has gone already");
	}
	return result;
}

static bool has_word(const char *name, const char *const *words)
{
	for (; *words; words++)
		if (strstr(name, *words))
			return true;
	return false;
}

/*
 * Not all drivers count XDP frames in `netdev` (mlx5 does not), and each has words of its own in
 * `ethtool`. rx_queue_0_xdp_tx and the like count what came, tx_timeout and tx_busy no frames.
 */
static bool counts_sent(const char *name)
{
	static const char *const from[] = {"tx", "xmit", NULL};
	static const char *const what[] = {"packets", "pkt", "bytes", "octets",
					   "frames",  "cnt", "xmit",  NULL};
	static const char *const never[] = {"rx", "err", "drop", NULL};

	if (!strcmp(name, "netdev.tx_packets"))
		return true;
	return !strncmp(name, "ethtool.", strlen("ethtool.")) && has_word(name, from) &&
	       has_word(name, what) && !has_word(name, never);
}

static bool port_sent(json_t *before, json_t *after)
{
	const char *name;
	json_t *old, *value;

	json_object_foreach(after, name, value) {
		old = json_object_get(before, name);
		if (old && counts_sent(name) && !json_equal(value, old))
			return true;
	}
	return false;
}

/* Frames that the port throws away before it counts them are noticed by nobody else. */
static int check_accepted(const struct generator *generator, const struct sampler *sampler,
			  json_t *before)
{
	int64_t deadline_ns = now_ns() + ACCEPT_BUDGET_NS;
	uint64_t packets = generator_packets(generator);
	bool sent = !packets;

	while (!sent) {
		json_t *after = sampler_read_all(sampler);

		sent = after && port_sent(before, after);
		json_decref(after);
		if (!sent && now_ns() >= deadline_ns)
			break;
		if (!sent)
			sleep_ns(ACCEPT_STEP_NS);
	}
	if (sent)
		return 0;
	return fail_hint(fail_because(0, generator->ifname, "verify",
				      "%llu frames were handed to the kernel, and no transmit "
				      "counter of the port moved",
				      (unsigned long long)packets),
			 "both ends must be up, and the peer of a veth port needs a native XDP "
			 "program (or GRO)");
}

static int say_ready(const struct port *port, const struct generator *generator,
		     const struct observers *observers, const struct sampler *sampler)
{
	json_t *extra = json_pack("{s:o}", "generator", generator_describe(generator));
	int result = observers_describe(observers, port, extra);

	if (result)
		json_decref(extra);
	return result ? result : trial_ready(port, sampler, extra);
}

static int run(const struct spec *spec, const struct port *port, struct generator *generator,
	       const struct observers *observers, struct sampler *sampler)
{
	enum command next;
	int64_t took_ns;
	json_t *before;
	int result = say_ready(port, generator, observers, sampler);

	if (result)
		return result;
	before = sampler_read_all(sampler);
	if (!before)
		return fail_result();
	result = command_wait(NO_DEADLINE, -1, &next);
	if (!result && next == COMMAND_GO)
		result = send_and_sample(spec, generator, sampler, &next);
	if (!result)
		result = generator_stop(generator);
	if (!result)
		result = out_line(json_pack("{s:b}", "stopped", 1));
	if (!result)
		result = wait_for_finish(next);
	if (!result)
		result = drain(sampler, spec->interval_ns, &took_ns);
	if (!result)
		result = check_accepted(generator, sampler, before);
	if (!result)
		result = trial_done(port, sampler);
	json_decref(before);
	return result;
}

static int check_frame(const struct spec *spec, const struct link *link)
{
	int max = link->mtu + ETH_HLEN;

	if (spec->generator.frame.frame_len <= max)
		return 0;
	return fail_usage("spec", "frame.frame_len", "%d is not at most %d, the MTU of %s plus %d",
			  spec->generator.frame.frame_len, max, link->ifname, ETH_HLEN);
}

/* A port with a large MTU takes only programs that know of fragments. */
static int create_port(const struct spec *spec, struct port *port)
{
	struct load_options options = {0};
	struct link link;
	int result = link_read(spec->ifname, &link);

	if (result)
		return result;
	if (link.mtu + ETH_HLEN > LIVE_FRAME_LEN_MAX)
		options.flags = BPF_F_XDP_HAS_FRAGS;
	return port_create(port, spec->ifname, program_count_return, &options);
}

int generate_run(const struct spec *spec)
{
	struct sampler sampler;
	struct observers observers;
	struct generator generator;
	struct port port;
	int promiscuous_fd = -1;
	int result = sampler_create(&sampler);

	if (result)
		return result;
	result = observers_create(&observers, spec);
	if (result)
		goto destroy_sampler;
	result = create_port(spec, &port);
	if (result)
		goto destroy_observers;
	result = check_frame(spec, &port.link);
	if (!result)
		result = port_attach(&port, spec->attach_mode);
	if (!result && spec->generator.promiscuous) {
		promiscuous_fd = promiscuous_open(&port.link);
		result = promiscuous_fd < 0 ? fail_result() : 0;
	}
	if (result)
		goto destroy_port;
	result = generator_create(&generator, &spec->generator, &port);
	if (result)
		goto destroy_port;
	sampler_add(&sampler, (struct source){"generator", generator_take, generator_read,
					      &generator, .cheap = true});
	result = port_add_sources(&port, &sampler);
	if (!result)
		result = observers_add_sources(&observers, spec, &port, &sampler);
	if (!result)
		result = run(spec, &port, &generator, &observers, &sampler);
	generator_destroy(&generator);
destroy_port:
	if (promiscuous_fd >= 0)
		close(promiscuous_fd);
	port_destroy(&port);
destroy_observers:
	observers_destroy(&observers);
destroy_sampler:
	sampler_destroy(&sampler);
	return result;
}

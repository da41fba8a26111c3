// SPDX-License-Identifier: GPL-2.0-or-later
/* The contents of the tables: the flows of the generator, and random ones for
 * the size asked for. */
#include "work.h"

#include <arpa/inet.h>
#include <errno.h>

#include "error.h"
#include "frame.h"
#include "work_share.h"

#define FILLER_NET 0x0a000000  /* 10.0.0.0/8: no flow of the generator is from there */
#define BACKEND_NET 0xc0a80000 /* 192.168.SERVICE.BACKEND */
#define BACKEND_FIRST_PORT 8000

static struct flow make_flow(uint32_t saddr, uint32_t daddr, uint16_t sport, uint16_t dport)
{
	return (struct flow){
		.saddr = htonl(saddr),
		.daddr = htonl(daddr),
		.sport = htons(sport),
		.dport = htons(dport),
		.protocol = IPPROTO_UDP,
	};
}

static struct flow generated_flow(int i)
{
	return make_flow(FRAME_ADDRESS_FROM, FRAME_ADDRESS_TO, FRAME_FIRST_PORT + i, FRAME_PORT);
}

/* Steele, Lea and Flood's splitmix64. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static struct flow random_flow(uint64_t *state)
{
	uint64_t random = next_random(state);

	return make_flow(FILLER_NET | (random & 0xffffff), FRAME_ADDRESS_TO, random >> 24,
			 FRAME_PORT);
}

/* Add random flows that are not there yet until there are as many as that. */
static int fill_up(struct flow_table *table, const struct work_spec *spec, size_t len,
		   bool with_backends)
{
	uint64_t state = spec->seed;
	int result = 0;

	while (!result && table->len < len) {
		struct flow flow = random_flow(&state);

		result = flow_table_add(table, &flow,
					with_backends ? work_choose(&flow, 0, spec->backends) : 0);
		if (result == -EEXIST)
			result = 0;
	}
	return result ? fail(-result, "table of flows", "fill") : 0;
}

/* Which of the generator's flows are in the ACL: the first for a firewall, a
 * share for a chain. */
static bool is_dropped(const struct work_state *state, int flow)
{
	return state->work->parts & WORK_SHARE ? work_shared(flow, state->spec->drop_share)
					       : flow < state->spec->acl;
}

int work_fill_acl(struct work_state *state)
{
	const struct work_spec *spec = state->spec;
	int result = flow_table_create(&state->acl, spec->acl);

	for (int i = 0; !result && i < spec->flows; i++) {
		struct flow flow = generated_flow(i);

		if (is_dropped(state, i))
			result = flow_table_add(&state->acl, &flow, 0);
	}
	return result ? result : fill_up(&state->acl, spec, spec->acl, false);
}

static uint16_t fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return sum + (sum >> 16);
}

/* What a checksum changes by where the new words stand for the old ones, as on
 * the wire. */
static uint32_t change_of(uint32_t old, uint32_t new)
{
	return (old >> 16 ^ 0xffff) + ((old & 0xffff) ^ 0xffff) + (new >> 16) + (new & 0xffff);
}

static struct backend make_backend(int service, int number)
{
	struct backend backend = {
		.addr = htonl(BACKEND_NET | service << 8 | number),
		.port = htons(BACKEND_FIRST_PORT + number),
	};
	uint32_t address = change_of(htonl(FRAME_ADDRESS_TO + service), backend.addr);

	backend.ip_change = fold(address);
	backend.udp_change = fold(address + (htons(FRAME_PORT) ^ 0xffff) + backend.port);
	return backend;
}

/* Services of consecutive addresses; the generator's packets are for the first.
 */
static int add_service(struct work_state *state, int service)
{
	int first = service * state->spec->backends;
	struct flow flow = make_flow(0, FRAME_ADDRESS_TO + service, 0, FRAME_PORT);

	for (int i = 0; i < state->spec->backends; i++)
		state->backends[first + i] = make_backend(service, i);
	return flow_table_add(&state->services, &flow, first);
}

/* Sessions of the generator begin with their first packets, and there is room
 * for them. */
int work_fill_sessions(struct work_state *state)
{
	const struct work_spec *spec = state->spec;
	int generated = work_forwarded(spec->flows, spec->drop_share);
	int result = flow_table_create(&state->services, WORK_SERVICES);

	for (int i = 0; !result && i < WORK_SERVICES; i++)
		result = add_service(state, i);
	if (!result)
		result = flow_table_create(&state->sessions, spec->sessions);
	return result ? result : fill_up(&state->sessions, spec, spec->sessions - generated, true);
}

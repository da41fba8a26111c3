// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Threads add the same flows to one table, each from another place on, and look up what they added.
 * Prints how many additions succeeded, were there already, and found the table full, how many flows
 * were not found with their number, and the entries of the table.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "../../native/flow_table.h"

#define THREADS 4
#define FLOWS 60000
#define ROOM 50000

static struct flow_table table;
static int added, there, full, lost;

static struct flow make_flow(unsigned int i)
{
	return (struct flow){.saddr = i * 2654435761u, .sport = i, .protocol = PROTOCOL_UDP};
}

static void count(int *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static void *run(void *argument)
{
	unsigned int start = (long)argument * FLOWS / THREADS;

	for (unsigned int n = 0; n < FLOWS; n++) {
		unsigned int i = (start + n) % FLOWS;
		struct flow flow = make_flow(i);
		int result = flow_table_add(&table, &flow, i);
		int found = flow_table_find(&table, &flow);

		count(!result ? &added : result == -EEXIST ? &there : &full);
		if (found != (result == -ENOSPC ? -1 : (int)i))
			count(&lost);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	if (flow_table_create(&table, ROOM))
		return 1;
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%d %d %d %d %zu\n", added, there, full, lost, table.len);
	flow_table_destroy(&table);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "guest.h"
#include "out.h"
#include "probe.h"
#include "trial.h"
#include "version.h"

#define EXIT_FAILED 1
#define EXIT_USAGE 2

static int run(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "version"))
		return version_run();
	if (argc == 3 && !strcmp(argv[1], "probe"))
		return probe_run(argv[2]);
	if (argc == 2 && !strcmp(argv[1], "trial"))
		return trial_run();
	return fail_usage("xdprepro-agent", "command line",
			  "usage: xdprepro-agent version | probe IFNAME | trial");
}

int main(int argc, char **argv)
{
	if (guest_is_init(argv[0]))
		guest_run();
	if (!run(argc, argv))
		return 0;
	fprintf(stderr, "xdprepro-agent: %s: %s: %s\n", failure.object, failure.step,
		failure.reason);
	if (failure.hint[0])
		fprintf(stderr, "hint: %s\n", failure.hint);
	out_failure();
	return failure.usage ? EXIT_USAGE : EXIT_FAILED;
}

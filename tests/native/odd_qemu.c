// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * odd_qemu PLUGIN INTERFACE TARGET SYSTEM CPUS [ARGUMENT...]: a QEMU that no machine here has asks
 * the plugin to install. Exit status 1: it refused.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "qemu-plugin/qemu.h"

typedef int (*install_function)(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
				char **argv);

int main(int argc, char **argv)
{
	struct qemu_info info = {.target_name = argv[3]};
	void *plugin = dlopen(argv[1], RTLD_LAZY);
	install_function install = plugin ? dlsym(plugin, "qemu_plugin_install") : NULL;

	if (!install) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	info.version.cur = atoi(argv[2]);
	info.system_emulation = atoi(argv[4]);
	info.system.smp_vcpus = atoi(argv[5]);
	return install(1, &info, argc - 6, argv + 6) ? 1 : 0;
}

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The first job, on a machine that is set up.   ./first-run.sh LAB
#
# First this kernel's rates: measured twice and compared. Then, as long as the lab is the one that every machine has,
# two other kernels in the emulated bench: instructions per packet, and the functions that explain the difference.
#
# The lab goes away whatever happens. A trial that failed is no reason to hide the others: what can be shown is shown,
# and the first failure is the exit status.

set -u
cd "$(dirname "$0")" || exit
lab=${1:?the name of a lab is missing}
kernels=(deb:6.1 deb:6.12)
status=0

xdprepro() {
	echo
	echo "$ xdprepro $*"
	.venv/bin/xdprepro "$@" && return
	local failed=$?
	[ "$status" != 0 ] || status=$failed
	return "$failed"
}

measure_this_kernel() {
	trap 'xdprepro down "$lab"; exit "$status"' EXIT
	xdprepro up "$lab" || exit
	xdprepro run smoke --lab "$lab" --runs 2
	[ "$status" -le 1 ] || exit # 1: some trials failed
	xdprepro archive verify latest latest~1
	xdprepro archive show latest
	# Five short restarts settle no more than this; a comparison in earnest takes more of them, and no margin but the default.
	xdprepro compare latest~1 latest --margin 5
	xdprepro down "$lab"
	trap - EXIT
}

compare_other_kernels() {
	for kernel in "${kernels[@]}"; do
		xdprepro kernel fetch "$kernel" || exit "$status"
	done
	xdprepro run smoke --lab vm --port veth --port igb "${kernels[@]/#/--kernel=}"
	[ "$status" -le 1 ] || exit "$status"
	xdprepro archive verify latest latest~1
	# Two kernels of a distribution differ in configuration, too. It is shown first; the figures are worth a look all the same.
	xdprepro compare latest~1 latest --allow-confounded
	xdprepro explain latest~1 latest 'xdp.drop.no-touch*port-igb' --top 12
}

trap 'status=130; exit' INT TERM
measure_this_kernel
[ "$lab" != veth ] || compare_other_kernels

echo
echo "The sealed runs are in ${XDPREPRO_ARCHIVE:-archive/runs}. Next: '.venv/bin/xdprepro archive ls' lists them;"
echo "'.venv/bin/xdprepro run smoke --lab vm --kernel git:PATH@REF ...' measures kernels of your own, 'explain A B CASE' says what changed."
exit "$status"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The first job, on a machine that is set up: measure this kernel twice and compare.   ./first-run.sh LAB
#
# The lab goes away whatever happens. A trial that failed is no reason to hide the others: what can be shown is shown,
# and the first failure is the exit status.

set -u
cd "$(dirname "$0")" || exit
lab=${1:?the name of a lab is missing}
status=0

xdprepro() {
	echo
	echo "$ xdprepro $*"
	.venv/bin/xdprepro "$@" && return
	local failed=$?
	[ "$status" != 0 ] || status=$failed
	return "$failed"
}

trap 'status=130; exit' INT TERM
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

echo
echo "The sealed runs are in ${XDPREPRO_ARCHIVE:-archive/runs}. Next: '.venv/bin/xdprepro archive ls' lists them;"
echo "boot another kernel, type 'make run' again, and compare: '.venv/bin/xdprepro compare latest~2 latest'."
exit "$status"

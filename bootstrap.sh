#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Make the Python environment that everything else runs in:   ./bootstrap.sh requirements.lock|requirements-test.lock
#
# It is made from the distribution's python3, never from a version manager's: only that one sees the distribution's bcc.
# It stands outside the checkout, because the first line of a script cannot hold a path with spaces; .venv leads to it.

set -euo pipefail

python=/usr/bin/python3
lock=${1:?the name of a lock file is missing}
root=$(cd "$(dirname "$0")" && pwd -P)
cache=${XDPREPRO_CACHE:-${XDG_CACHE_HOME:-~/.cache}/xdprepro}
venv=$cache/venv-$(printf %s "$root" | sha256sum | cut -c1-12)

die() {
	echo "bootstrap: $1" >&2
	exit 1
}

install_python() {
	local packages="python3 python3-venv"
	command -v apt-get >/dev/null || die "$python is missing or has no venv: install it from your distribution"
	[ "$(id -u)" = 0 ] || die "needs root to install $packages: run 'apt-get install $packages' as root, or run this as root"
	echo "bootstrap: install $packages"
	# A repository that cannot be reached is no reason to stop: the next command says whether it was needed.
	apt-get -qq update || true
	# shellcheck disable=SC2086 # two words
	DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 install --no-install-recommends $packages >/dev/null
}

# What the environment was made from. The test lock holds all that the other one does.
stamp_of() {
	{ cat "$1" && "$python" -VV; } | sha256sum | cut -c1-64
}

is_made_from() {
	[ -e "$venv/stamp-$1" ] && [ "$(cat "$venv/stamp-$1")" = "$(stamp_of "$root/$2")" ]
}

# From nothing, for what an interrupted bootstrap or another lock left there is of no use. The stamp comes last.
make_venv() {
	echo "bootstrap: make $venv from $lock"
	rm -f "$venv"/stamp-*
	"$python" -m venv --clear --system-site-packages "$venv"
	"$venv/bin/pip" install "${quiet[@]}" --ignore-installed --require-hashes --requirement "$root/$lock"
	stamp_of "$root/$lock" >"$venv/stamp-lock"
}

# The checkout is the Python package, and it is the collection xdprepro.lab for the Ansible of this environment.
link_project() {
	local collections
	"$venv/bin/pip" install "${quiet[@]}" --no-build-isolation --no-deps --editable "$root"
	collections=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/ansible_collections
	mkdir -p "$collections/xdprepro"
	ln -sfn "$root" "$collections/xdprepro/lab"
	stamp_of "$root/pyproject.toml" >"$venv/stamp-project"
}

quiet=(--quiet --quiet --disable-pip-version-check --no-input)
[[ $cache != *[[:space:]]* ]] || die "'$cache' has spaces in it, which Python's scripts do not bear: set XDPREPRO_CACHE"
[ -f "$root/$lock" ] || die "$root/$lock: no such lock file"
[ -L "$root/.venv" ] || [ ! -e "$root/.venv" ] || die "$root/.venv is not a link that this made: move it away"
"$python" -c 'import ensurepip, venv' 2>/dev/null || install_python
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "$("$python" -V) is too old: 3.11 is needed"

mkdir -p "$cache"
exec 9>"$venv.lock"
flock 9
is_made_from lock "$lock" || is_made_from lock requirements-test.lock || make_venv
is_made_from project pyproject.toml || link_project
ln -sfn "$venv" "$root/.venv"

# SPDX-License-Identifier: GPL-2.0-or-later
"""The first job on fresh Debian systems that have nothing but make: set up, built, measured and compared.

Only the kernel is this machine's. The systems are kept in the cache directory; what is deleted there is made anew.
"""

import os
import shutil
from pathlib import Path

import pytest
from conftest import need
from test_bootstrap import copy_checkout

from xdprepro import cmd

pytestmark = [pytest.mark.slow, pytest.mark.netns, pytest.mark.usefixtures("root_user"), pytest.mark.timeout(1800)]

RELEASES = ("bookworm", "trixie")
# How this machine reaches the package archives.
BORROWED = ("http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL", "PIP_CERT")

# A mount namespace of its own, so that nothing stays mounted. The new root is a mount point, because 'ip netns exec'
# wants one; a new /run, with the options that Debian gives it, keeps this machine's namespaces and locks out of sight.
ENTER = """
set -e
root=$1
shift
mount --make-rprivate /
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t tmpfs -o nosuid,nodev,noexec tmpfs "$root/run"
cat /etc/resolv.conf >"$root/etc/resolv.conf"
cat /etc/ssl/certs/ca-certificates.crt >"$root/etc/ssl/certs/ca-certificates.crt"
exec chroot "$root" env --ignore-environment --chdir=/checkout PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"
"""


def find_mirror() -> str:
    """Where this machine has Debian from."""
    fields = "$(ORIGIN) $(LABEL) $(REPO_URI)"
    targets = cmd.run(["apt-get", "indextargets", "--format", fields, "Created-By: Packages"], check=False)
    uris = [line.split()[2] for line in targets.stdout.splitlines() if line.startswith("Debian Debian ")]
    need(bool(uris), "no Debian mirror in this machine's apt configuration: run it on Debian")
    return uris[0]


def make_system(release: str) -> Path:
    cache = Path(os.environ.get("XDPREPRO_CACHE", Path.home() / ".cache/xdprepro"))
    path = cache / f"debian-{release}.tar"
    if not path.exists():
        new = path.with_suffix(".new.tar")
        options = ["--variant=minbase", "--include=make,ca-certificates"]
        cmd.run(["mmdebstrap", *options, release, new, find_mirror()])
        new.rename(path)
    return path


@pytest.fixture(params=RELEASES)
def system(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The root of a fresh system with the checkout in /checkout."""
    need(shutil.which("mmdebstrap") is not None, "no mmdebstrap: run 'apt-get install mmdebstrap'")
    release: str = request.param
    root = tmp_path / release
    root.mkdir()
    cmd.run(["tar", "--extract", "--file", make_system(release), "--directory", root])
    copy_checkout(root / "checkout")
    return root


def run_in(root: Path, *argv: str) -> cmd.Result:
    borrowed = [f"{name}={os.environ[name]}" for name in BORROWED if name in os.environ]
    return cmd.run(["unshare", "--mount", "sh", "-c", ENTER, "sh", root, *borrowed, *argv], check=False)


def test_the_first_job_on_a_fresh_system(system: Path) -> None:
    first = run_in(system, "make", "run")
    assert first.status == 0, first.stdout[-3000:] + first.stderr[-3000:]
    assert "REGRESSED" not in first.stdout
    assert len(list((system / "checkout/archive/runs").glob("*.h5"))) == 2
    assert run_in(system, ".venv/bin/python", "-c", "import bcc").status == 0
    again = run_in(system, "make", "setup", "build")
    assert again.status == 0, again.stderr
    assert "bootstrap:" not in again.stdout
    assert "changed=0 " in again.stdout

# SPDX-License-Identifier: GPL-2.0-or-later
"""Which packages the set-up finds missing, and that a QEMU it cannot get ends nothing else."""

import os
import platform
import re
import shlex
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from xdprepro import cmd
from xdprepro.guest.qemu import OLDEST, QEMU

RELEASE = platform.freedesktop_os_release()
DEBIAN_12 = pytest.mark.skipif(
    (RELEASE["ID"], RELEASE.get("VERSION_ID")) != ("debian", "12"), reason="Debian 12 alone has QEMU in its backports"
)
DEBIAN = pytest.mark.skipif(RELEASE["ID"] != "debian", reason="the rows of other distributions have not been run yet")


def run_setup(directory: Path, *words: str, **programs: str) -> str:
    """What the playbook says on a machine whose programs are these shell scripts."""
    directory.mkdir(exist_ok=True)
    for name, script in programs.items():
        path = directory / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    search = f"{directory}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "true", "PATH": search}
    argv: cmd.Argv = [Path(sys.executable).parent / "ansible-playbook", ROOT / "playbooks/setup.yml", *words]
    done = cmd.run(argv, env=env, check=False)
    assert done.status == 0, done.stdout
    return done.stdout


def edited(*scripts: str) -> str:
    """A dpkg-query whose list was edited."""
    return f'/usr/bin/dpkg-query "$@" | sed -E {shlex.join(f"-e{script}" for script in scripts)}'


@DEBIAN
def test_machine_that_has_all_is_left_alone(tmp_path: Path) -> None:
    said = run_setup(tmp_path / "bin", "--check")
    assert re.search(r"localhost .* changed=0 .* failed=0 ", said)


@DEBIAN_12
def test_what_is_missing_or_old_is_named_in_check_mode(tmp_path: Path) -> None:
    query = edited("/^installed flex /d", "s/^(installed qemu-system-x86) .*/\\1 1:7.2+dfsg-7+deb12u18+b3/")
    said = run_setup(tmp_path / "bin", "--check", dpkg_query=query)
    assert '"msg": "flex"' in said
    assert '"msg": "qemu-system-x86 from bookworm-backports"' in said


@DEBIAN_12
def test_backports_that_cannot_be_reached_end_nothing_else(tmp_path: Path) -> None:
    """apt-get knows the backports already, so that nothing is written, and cannot install."""
    apt = f"""
echo "$@" >>{tmp_path}/calls
case "$*" in
indextargets*) echo bookworm http://mirror.invalid/debian/; echo bookworm-backports http://mirror.invalid/debian/;;
*install*) echo "E: Unable to fetch some archives" >&2; exit 100;;
esac"""
    said = run_setup(tmp_path / "bin", dpkg_query=edited("/^installed qemu-system-x86 /d"), apt_get=apt)
    assert "labs of guests (kind vm) do not work, all others do" in said
    assert re.search(r"localhost .* failed=0 .* rescued=1 ", said)
    (install,) = [line for line in (tmp_path / "calls").read_text().splitlines() if " install " in line]
    assert install.endswith("--target-release bookworm-backports qemu-system-x86")


def test_role_and_program_want_the_same_qemu() -> None:
    text = (ROOT / "roles/toolchain/vars/main.yml").read_text()
    found = re.search(r'^__toolchain_emulator_oldest: "(.+)"$', text, re.MULTILINE)
    assert found is not None
    assert found[1] == ".".join(map(str, OLDEST))
    assert QEMU.removesuffix("_64") in text.replace("x86-core", "x86")

# SPDX-License-Identifier: GPL-2.0-or-later
"""The objects depend on their sources alone, and the programs cost what is written about them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
BUILT = ROOT / "bpf/build"

# Instructions on the path of a packet beyond those of the program that only returns the action.
COUNTING_MAX = 23


def make(directory: Path, *argv: str) -> str:
    """Output of a make, as from a shell: what a make above this test exports stays out."""
    clean = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(
        ["make", "-C", directory, *argv], capture_output=True, text=True, check=False, timeout=250, env=clean
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def copy(agent: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of both, built at a path with a space."""
    copy = tmp_path_factory.mktemp("a path") / "check out"
    for part in ("bpf", "native"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("build"))
    make(copy / "native")
    return copy


def test_objects_are_the_same_in_every_checkout(copy: Path) -> None:
    for ours in BUILT.glob("*.bpf.o"):
        assert (copy / "bpf/build" / ours.name).read_bytes() == ours.read_bytes(), ours.name


def stamps(copy: Path) -> dict[Path, int]:
    """When each built file was written."""
    return {path: path.stat().st_mtime_ns for path in copy.glob("*/build/*") if path.suffix != ".d"}


def test_second_make_does_nothing(copy: Path) -> None:
    before = stamps(copy)
    for part in ("bpf", "native"):
        make(copy / part)
    assert stamps(copy) == before
    assert {path.name for path in before} >= {"xdprepro-agent", "xdp_tx_swap_macs.bpf.o"}


def test_change_of_a_shared_header_builds_what_includes_it(copy: Path) -> None:
    before = stamps(copy)
    (copy / "bpf/count.h").touch()
    make(copy / "native")
    changed = {path.name for path, stamp in stamps(copy).items() if before[path] != stamp}
    assert {"xdprepro-agent", "xdp_tx_swap_macs.bpf.o", "programs.o"} <= changed
    assert "bare_tx.bpf.o" not in changed


def executed(name: str) -> int:
    """Instructions from the entry of a program to its exit when no packet is bad and no helper fails."""
    text = subprocess.run(
        ["llvm-objdump", "-d", "--no-show-raw-insn", BUILT / f"{name}.bpf.o"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    code = {int(at): what for at, what in re.findall(r"^\s+(\d+):\s+(.*?)$", text, re.MULTILINE)}
    at, count = 0, 0
    while True:
        count += 1
        jump = re.match(r"(if .*?)?goto \+(\d+)", code[at])
        if code[at] == "exit":
            return count
        taken = jump and (not jump[1] or ">=" in jump[1])
        after = min(next_at for next_at in code if next_at > at)
        at = after + int(jump[2]) if jump and taken else after


@pytest.mark.parametrize(
    ("counting", "bare"),
    [
        ("xdp_drop_no_touch", "bare_drop"),
        ("xdp_tx_swap_macs", "bare_tx"),
        ("xdp_redirect_map_swap_macs", "bare_redirect_map"),
    ],
)
def test_counting_costs_few_instructions(counting: str, bare: str) -> None:
    assert 0 < executed(counting) - executed(bare) <= COUNTING_MAX

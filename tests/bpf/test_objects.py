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

# Instructions of x86 for a good packet beyond those of the program that only returns the action, with the call that
# tells the CPU in the three that kernels make of it since 6.10. The first is what the exact bench has: one queue.
# docs/programs.md has the figures; those of the exact bench are in tests/guest/test_counting.py.
COUNTING_MAX = {"_one_queue": 12, "": 17}
READ_CPU, READ_CPU_INSN = "call 8", 3
REFUSED = "if r0 != 4 goto"  # a redirect that is refused: no good packet


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
    assert {path.name for path in before} >= {"xdprepro-agent", "xdp_tx.bpf.o"}


def test_change_of_a_shared_header_builds_what_includes_it(copy: Path) -> None:
    before = stamps(copy)
    (copy / "bpf/count.h").touch()
    make(copy / "native")
    changed = {path.name for path, stamp in stamps(copy).items() if before[path] != stamp}
    assert {"xdprepro-agent", "xdp_tx.bpf.o", "xdp_tx_one_queue.bpf.o", "programs.o"} <= changed
    assert "bare_tx.bpf.o" not in changed


def parse_code(listing: str) -> dict[int, str]:
    """The instructions of a disassembly by their place; one of 16 bytes takes two places."""
    return {int(at): what for at, what in re.findall(r"^\s+(\d+):\s+(.*?)$", listing, re.MULTILINE)}


def longest_path(code: dict[int, str]) -> int:
    """Instructions to the exit at most: the way of a good packet, as the others leave earlier. There are no loops."""
    places: list[int | None] = [*code, None]
    after = dict(zip(code, places[1:], strict=True))
    length: dict[int | None, int] = {None: 0}
    for at in reversed(code):
        # clang up to 18 writes +17, later ones +0x11. Only the way back of a refused redirect goes backwards.
        jump = re.match(r"(if .*?)?goto ([+-]0x[0-9a-f]+|[+-]\d+)", code[at].replace("0x4 goto", "4 goto"))
        ways = [] if code[at] == "exit" or (jump and not jump[1]) else [after[at]]
        if jump and not jump[0].startswith(REFUSED) and (next_at := after[at]) is not None:
            ways.append(next_at + int(jump[2], 0))
        length[at] = (READ_CPU_INSN if code[at].startswith(READ_CPU) else 1) + max(
            (length.get(way, 0) for way in ways), default=0
        )
    return length[min(code)]


def executed(name: str, program: str) -> int:
    """Instructions of a program of an object for a good packet."""
    done = subprocess.run(
        ["llvm-objdump", "-d", "--no-show-raw-insn", BUILT / f"{name}.bpf.o"],
        capture_output=True,
        text=True,
        check=True,
    )
    # Where clang jumps to has a label of its own.
    programs = re.split(r"^[0-9a-f]+ <(?!LBB)(.*)>:$", done.stdout, flags=re.MULTILINE)
    return longest_path(parse_code(programs[programs.index(program) + 1]))


def test_longest_path_is_that_of_a_good_packet_whichever_way_clang_lays_it() -> None:
    inverted = """
       0:	r2 = *(u32 *)(r1 + 0x4)
       1:	if r2 >= r3 goto +0x3 <x+0x28>
       2:	r1 = 0x0 ll
       4:	goto +0x3 <x+0x40>
       5:	r1 = 1
       6:	r2 = 2
       7:	r0 = 2
       8:	exit
"""
    assert longest_path(parse_code(inverted)) == 6
    assert longest_path(parse_code(inverted.replace("0x3", "3"))) == 6


@pytest.mark.parametrize("queues", COUNTING_MAX)
@pytest.mark.parametrize(
    ("name", "program", "bare"),
    [
        ("xdp_drop", "xdp_drop_no_touch", "bare_drop"),
        ("xdp_tx", "xdp_tx_swap_macs", "bare_tx"),
        ("xdp_redirect_map", "xdp_redirect_map_swap_macs", "bare_redirect_map"),
    ],
)
def test_counting_costs_few_instructions(name: str, program: str, bare: str, queues: str) -> None:
    beyond = executed(name + queues, program) - executed(bare + queues, bare)
    assert 0 < beyond <= COUNTING_MAX[queues]

# SPDX-License-Identifier: GPL-2.0-or-later
"""What the agent tells the instruction counter, and which QEMU and arguments the counter refuses."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from agent_lab import Line, generate_spec, make_pair, measure_spec, run, start_agent
from conftest import need

HERE = Path(__file__).parent
NATIVE = HERE.parent.parent / "native"
PLUGIN = NATIVE / "qemu-plugin/build/libxdprepro-count.so"
ADDRESSES = ("arm=0x1", "open=0x2", "close=0x3", "app=0x4", "table=0x5")
POLL, INTERRUPT, EXCEPTION, SWITCH, FORK = range(1, 6)

SYMBOLS = """\
ffffffff81000000 T _stext
ffffffff81000040 T irq_entries_start
ffffffff81000040 t its_alias
ffffffff81000840 T spurious_entries_start
ffffffff81000900 T asm_exc_page_fault
ffffffff81000910 T asm_sysvec_apic_timer_interrupt
ffffffff81000920 T __switch_to_asm
ffffffff81000930 T __switch_to
ffffffff81000940 t ret_from_fork
ffffffff81000950 d process_backlog
ffffffff81000960 t process_backlog
ffffffff81000970 t process_backlog_more
ffffffffc0000010 t veth_poll\t[veth]
ffffffffc0000000 t veth_poll_controller\t[veth]
"""


def build(source: str, directory: Path, *more: str) -> Path:
    """A program from a source in this directory."""
    compiler = [os.environ.get("CC", "cc"), "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"]
    run(*compiler, f"-I{NATIVE}", "-o", str(directory / source), str(HERE / f"{source}.c"), *more)
    return directory / source


@pytest.fixture(scope="module")
def made_symbols(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """made_symbols.c, built."""
    sources = [str(NATIVE / name) for name in ("window.c", "error.c")]
    return build("made_symbols", tmp_path_factory.mktemp("made_symbols"), *sources)


@pytest.fixture(scope="module")
def odd_qemu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """odd_qemu.c, built."""
    need(PLUGIN.exists(), "no plugin: run 'make build'")
    return build("odd_qemu", tmp_path_factory.mktemp("odd_qemu"))


def fill(program: Path, path: Path, symbols: str) -> subprocess.CompletedProcess[str]:
    path.write_text(symbols)
    return subprocess.run([program, path], capture_output=True, text=True, check=False, timeout=10)


def test_entry_points_are_found_by_their_names(made_symbols: Path, tmp_path: Path) -> None:
    said = fill(made_symbols, tmp_path / "kallsyms", SYMBOLS).stdout.splitlines()
    assert said == [
        "symbols 13",
        f"mark ffffffff81000040 ffffffff81000840 {INTERRUPT}",
        f"mark ffffffff81000840 ffffffff81000900 {INTERRUPT}",
        f"mark ffffffff81000900 ffffffff81000901 {EXCEPTION}",
        f"mark ffffffff81000910 ffffffff81000911 {INTERRUPT}",
        f"mark ffffffff81000930 ffffffff81000931 {SWITCH}",
        f"mark ffffffff81000940 ffffffff81000941 {FORK}",
        f"mark ffffffff81000960 ffffffff81000961 {POLL}",
        f"mark ffffffffc0000010 ffffffffc0000011 {POLL}",
    ]


def test_lines_may_be_cut_anywhere_by_a_read(made_symbols: Path, tmp_path: Path) -> None:
    filler = "".join(f"ffffffff80{i:06x} t {'x' * (1 + i % 61)}\n" for i in range(1, 9001))
    said = fill(made_symbols, tmp_path / "kallsyms", filler + SYMBOLS).stdout.splitlines()
    assert len(filler) > 4 * 65536
    assert (said[0], len(said)) == ("symbols 9013", 9)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("ffffffff81000000", "0000000000000000", "kallsyms: read: the addresses are hidden"),
        ("T __switch_to\n", "d __switch_to\n", "kallsyms: find entry points: no __switch_to"),
        ("asm_exc_", "exc_", "kallsyms: find entry points: no asm_exc_*"),
    ],
)
def test_kernel_that_cannot_be_followed_is_named(
    made_symbols: Path, tmp_path: Path, old: str, new: str, reason: str
) -> None:
    done = fill(made_symbols, tmp_path / "kallsyms", SYMBOLS.replace(old, new))
    assert (done.returncode, done.stderr.strip()) == (1, reason)


def test_markers_are_told_as_the_linker_placed_them(agent: Path) -> None:
    markers = json.loads(run(str(agent), "version"))["markers"]
    symbols = {
        words[2]: int(words[0], 16) for line in run("nm", str(agent)).splitlines() if len(words := line.split()) == 3
    }
    assert {f"window_{name}": int(address, 16) for name, address in markers.items()} == {
        name: symbols[name] for name in ("window_arm", "window_open", "window_close", "window_app", "window_table")
    }
    assert len(set(markers.values())) == len(markers)


@pytest.mark.netns
def test_programs_tell_where_their_code_is(agent: Path, root_user: None) -> None:
    with make_pair(agent) as pair, start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch")) as dut:
        attach = dut.wait_for("ready")["attach"]
        with start_agent(pair, pair.tester, generate_spec(pair)) as tester:
            generator = tester.wait_for("ready")["generator"]
    for program in (attach, generator):
        assert program["jited_len"] > 0
        assert re.fullmatch("0xffff[0-9a-f]{12}", program["jited_addr"])
    assert attach["jited_addr"] != generator["jited_addr"]


@pytest.mark.netns
def test_generator_without_a_program_has_no_code(agent: Path, root_user: None) -> None:
    spec: Line
    with make_pair(agent) as pair:
        spec = {**generate_spec(pair), "generator": "af-packet"}
        with start_agent(pair, pair.tester, spec) as tester:
            generator = tester.wait_for("ready")["generator"]
    assert [generator[name] for name in ("tag", "jited_addr", "jited_len")] == [None, None, None]


@pytest.mark.parametrize(
    ("qemu", "reason"),
    [
        (("3", "x86_64", "1", "1"), "plugin interface is not the known one, version 4"),
        (("5", "x86_64", "1", "1"), "plugin interface is not the known one, version 4"),
        (("4", "aarch64", "1", "1"), "it is not qemu-system-x86_64"),
        (("4", "x86_64", "0", "1"), "it is not qemu-system-x86_64"),
        (("4", "x86_64", "1", "2"), "the guest has more than one CPU"),
    ],
)
def test_unknown_qemu_is_refused(odd_qemu: Path, tmp_path: Path, qemu: tuple[str, ...], reason: str) -> None:
    argv = [str(odd_qemu), str(PLUGIN), *qemu, f"out={tmp_path / 'out'}", *ADDRESSES]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10)
    assert done.returncode == 1
    assert done.stderr.startswith("xdprepro-count: QEMU: check: ")
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (ADDRESSES, "out=: read arguments: missing"),
        (("out=OUT", *ADDRESSES[1:]), "arm=: read arguments: missing"),
        (("out=OUT", *ADDRESSES, "arm=main"), "arm=main: read arguments: unknown, or no hexadecimal address"),
        (("out=OUT", *ADDRESSES, "memory=yes"), "memory=yes: read arguments: unknown, or no hexadecimal address"),
        (("out=/nowhere/out", *ADDRESSES), "/nowhere/out: open: No such file or directory"),
    ],
)
def test_bad_argument_is_refused(odd_qemu: Path, tmp_path: Path, arguments: tuple[str, ...], reason: str) -> None:
    given = [argument.replace("OUT", str(tmp_path / "out")) for argument in arguments]
    argv = [str(odd_qemu), str(PLUGIN), "4", "x86_64", "1", "1", *given]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10)
    assert (done.returncode, done.stderr.strip()) == (1, f"xdprepro-count: {reason}")


def test_real_qemu_that_is_refused_starts_no_guest(tmp_path: Path) -> None:
    qemu = shutil.which("qemu-system-x86_64")
    need(qemu is not None and PLUGIN.exists(), "no QEMU or no plugin: run 'make setup' and 'make build'")
    plugin = ",".join([str(PLUGIN), f"out={tmp_path / 'out'}", *ADDRESSES])
    argv = [str(qemu), "-display", "none", "-nodefaults", "-smp", "2", "-S", "-plugin", plugin]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode != 0
    assert "xdprepro-count: QEMU: check: the guest has more than one CPU" in done.stderr

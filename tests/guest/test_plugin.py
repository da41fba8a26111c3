# SPDX-License-Identifier: GPL-2.0-or-later
"""The plugin counts each instruction of a window once, for the task, poll or interrupt that executed it."""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import need

from xdprepro.errors import XdpreproError
from xdprepro.guest.course import run_guest
from xdprepro.guest.initramfs import make_initramfs
from xdprepro.guest.qemu import PLUGIN, Files, Machine, check_qemu, make_argv
from xdprepro.kernels import find_kernel

HERE = Path(__file__).parent
NATIVE = HERE.parent.parent / "native"
KERNEL = "deb:6.1"
MARKERS = {"arm": "window_arm", "open": "window_open", "close": "window_close", "app": "window_app"}
TABLE = {"table": "window_table"}
DEADLINE_S = 120

# The windows of counted.c, and what is in them.
SHORT_LOOP, LONG_LOOP, LONGEST_LOOP, FAULTS, REPETITION, DEVICE, TASKS, LOOPBACK, MEMORY, NEVER_CLOSED = range(1, 11)
PAGES, BYTES, PACKETS = 100, 77, 50
# The return from window_open(), argument and call of spin(), its return, the call of window_close().
SPIN_FRAME = 5


@dataclass
class Window:
    """One window of the plugin's file; contexts by name, a poll's name with its instance."""

    counts: Counter[tuple[int, str]] = field(default_factory=Counter)
    totals: dict[str, int] = field(default_factory=dict)
    memory: dict[tuple[int, str], tuple[int, ...]] = field(default_factory=dict)
    ended: bool = False

    def at(self, address: int) -> dict[str, int]:
        """Who executed the instruction there, and how often."""
        return {context: n for (where, context), n in self.counts.items() if where == address}

    @property
    def polls(self) -> list[str]:
        return [context for context in self.totals if context.startswith("poll ")]


@dataclass(frozen=True)
class Counted:
    """A guest that is over: its windows, the addresses of its init and of its kernel, and complaints."""

    windows: dict[int, Window]
    symbols: dict[str, int]
    kernel: dict[str, int]
    text: str
    stderr: str


@pytest.fixture(scope="session")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Counted:
    """counted.c, counted."""
    return run_counted(tmp_path_factory.mktemp("counted"), memory_pass=False)


@pytest.fixture(scope="session")
def touched(tmp_path_factory: pytest.TempPathFactory) -> Counted:
    """The same in a memory pass."""
    return run_counted(tmp_path_factory.mktemp("touched"), memory_pass=True)


def run_counted(directory: Path, *, memory_pass: bool) -> Counted:
    """Boot counted.c as the init of a guest, with the plugin."""
    need(PLUGIN.exists(), "no plugin: run 'make build'")
    try:
        check_qemu(counting=True)
        kernel = find_kernel(KERNEL)
    except XdpreproError as error:
        need(False, f"{error.message}; {error.hint}")
    init = build_init(directory)
    symbols = read_symbols(init)
    names = ("initramfs", "console", "results", "counts")
    files = Files(kernel.image, *(directory / name for name in names))
    (directory / "initramfs").write_bytes(make_initramfs(init, {}, []))
    machine = Machine("veth", channel="serial", memory_pass=memory_pass, cmdline="quiet")
    markers = {name: hex(symbols[symbol]) for name, symbol in (MARKERS | TABLE).items()}
    argv = make_argv(machine, files, {}, markers)
    course = run_guest(argv, files.console, files.results, deadline_s=DEADLINE_S)
    assert course.status == 0, course.console.decode(errors="replace")[-2000:]
    text = files.counts.read_text()
    lines = [line.split() for line in course.results.decode().splitlines()]
    addresses = {name: int(address, 16) for name, address in lines}
    return Counted(dict(iter_windows(text)), symbols, addresses, text, course.stderr)


def build_init(directory: Path) -> Path:
    """counted.c with the agent's own markers."""
    sources = [str(path) for path in (HERE / "counted.c", NATIVE / "window.c", NATIVE / "error.c")]
    compiler = [os.environ.get("CC", "cc"), "-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"]
    linker = ["-static", "-no-pie", "-fno-pie"]
    subprocess.run([*compiler, *linker, f"-I{NATIVE}", "-o", directory / "init", *sources], check=True, timeout=60)
    return directory / "init"


def read_symbols(program: Path) -> dict[str, int]:
    """Addresses of a program's symbols."""
    said = subprocess.run(["nm", program], capture_output=True, text=True, check=True, timeout=60).stdout
    lines = (line.split() for line in said.splitlines())
    return {words[2]: int(words[0], 16) for words in lines if len(words) == 3}


def iter_windows(text: str) -> Iterator[tuple[int, Window]]:
    """The windows of the plugin's file in their order."""
    window, contexts = Window(), dict[str, str]()
    for kind, *words in map(str.split, text.splitlines()):
        if kind == "window":
            window, contexts = Window(), {}
            yield int(words[0]), window
        elif kind == "context":
            contexts[words[0]] = " ".join(words[1:])
        elif kind == "i":
            window.counts[int(words[0], 16), contexts[words[1]]] += int(words[2])
        elif kind == "m":
            window.memory[int(words[0], 16), contexts[words[1]]] = tuple(map(int, words[2:]))
        elif kind == "total":
            window.totals[contexts[words[0]]] = int(words[1])
        elif kind == "end":
            window.ended = True


@pytest.mark.vm
def test_loop_counts_to_the_instruction(counted: Counted) -> None:
    spin = counted.symbols["spin_loop"]
    for window, times in ((SHORT_LOOP, 1000), (LONG_LOOP, 3000)):
        assert counted.windows[window].at(spin) == {"generator": times}
        assert counted.windows[window].totals["generator"] == 2 * times + SPIN_FRAME


@pytest.mark.vm
def test_sum_over_addresses_is_the_total_of_each_context(counted: Counted) -> None:
    for window in counted.windows.values():
        sums: Counter[str] = Counter()
        for (_, context), count in window.counts.items():
            sums[context] += count
        assert dict(sums) == window.totals


@pytest.mark.vm
def test_interrupts_are_apart_from_what_they_interrupt(counted: Counted) -> None:
    window = counted.windows[LONGEST_LOOP]
    assert window.totals["generator"] == 2 * 30_000_000 + SPIN_FRAME
    ticks = window.at(counted.kernel["update_process_times"])
    assert list(ticks) == ["interrupt"]
    # 60 ms of the guest's time hold at least 5 ticks, whatever the HZ.
    assert ticks["interrupt"] >= 5


@pytest.mark.vm
def test_block_that_a_fault_leaves_counts_what_was_executed(counted: Counted) -> None:
    window, symbols = counted.windows[FAULTS], counted.symbols
    assert window.at(symbols["fault_before"]) == {"generator": PAGES}
    assert window.at(symbols["fault_store"]) == {"generator": 2 * PAGES}
    assert window.at(symbols["fault_after"]) == {"generator": PAGES}
    # The fault is work of the task that caused it.
    assert window.at(counted.kernel["asm_exc_page_fault"])["generator"] == PAGES


@pytest.mark.vm
def test_repetition_counts_each_time_and_its_end(counted: Counted) -> None:
    assert counted.windows[REPETITION].at(counted.symbols["repeat_store"]) == {"generator": BYTES + 1}


@pytest.mark.vm
def test_instruction_that_reads_a_device_counts_once(counted: Counted, touched: Counted) -> None:
    for guest in (counted, touched):
        for name in ("device_before", "device_load", "device_after"):
            assert guest.windows[DEVICE].at(guest.symbols[name]) == {"generator": PAGES}


@pytest.mark.vm
def test_tasks_are_told_apart(counted: Counted) -> None:
    assert counted.windows[TASKS].at(counted.symbols["spin_loop"]) == {"generator": 1000, "app": 5000, "rest": 7000}


@pytest.mark.vm
def test_poll_is_apart_from_its_caller(counted: Counted) -> None:
    window, kernel = counted.windows[LOOPBACK], counted.kernel
    (poll,) = window.polls
    assert window.at(kernel["ip_rcv"]) == {poll: PACKETS}
    assert list(window.at(kernel["process_backlog"])) == [poll]
    assert poll not in window.at(kernel["net_rx_action"])
    assert re.fullmatch("poll ff[0-9a-f]{14}", poll)


@pytest.mark.vm
def test_window_that_never_closes_is_not_there(counted: Counted) -> None:
    assert all(window.ended for window in counted.windows.values())
    assert counted.windows.keys() == set(range(SHORT_LOOP, NEVER_CLOSED))


@pytest.mark.vm
def test_markers_out_of_order_are_told(counted: Counted) -> None:
    told = [line for line in counted.text.splitlines() if line.startswith("error")]
    assert told == ["error open: counting was not armed", "error close: none is open"]
    assert "xdprepro-count: window: close: none is open" in counted.stderr


@pytest.mark.vm
def test_memory_pass_counts_the_same_instructions(counted: Counted, touched: Counted) -> None:
    for window in (SHORT_LOOP, LONG_LOOP, REPETITION):
        assert touched.windows[window].counts == counted.windows[window].counts


@pytest.mark.vm
def test_memory_pass_counts_loads_stores_and_lines_a_packet(touched: Counted) -> None:
    memory = touched.windows[MEMORY].memory
    calls = 2 * PACKETS
    # Three loads and that of ret; two stores; of each packet three lines and that of the stack.
    assert memory[touched.symbols["touch"], "generator"] == (4 * calls, 2 * calls, 4 * PACKETS)


@pytest.mark.vm
def test_pass_without_memory_says_nothing_of_it(counted: Counted) -> None:
    assert not any(window.memory for window in counted.windows.values())

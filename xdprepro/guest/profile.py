# SPDX-License-Identifier: GPL-2.0-or-later
"""What the plugin counted, by function and side (native/qemu-plugin/ says how its file is written)."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from xdprepro.errors import XdpreproError
from xdprepro.guest.boot import Boot
from xdprepro.guest.symbols import Symbols, join_kallsyms, parse_kallsyms
from xdprepro.sample import Profile, ProfileRow, parse_stream

FORMAT = "xdprepro-count 1 "
WINDOW = "\nwindow "
# A poll in which the DUT's program ran is the receive side, another one that of the tester's port.
SIDES = {"poll": "generator", "generator": "generator", "app": "app", "interrupt": "rest", "rest": "rest"}
MEMORY = ("loads", "stores", "lines")

Names = Callable[[str], str]
Key = tuple[str, str]  # function, context or side


@dataclass(frozen=True)
class Program:
    """Where a BPF program was in one trial, and how its function is shown."""

    start: int
    end: int
    name: str
    is_dut: bool


@dataclass(frozen=True)
class Window:
    """What was counted in one window, by function and context; `memory` is empty but in a memory pass."""

    kinds: Mapping[str, str]  # of contexts
    insn: Mapping[Key, int]
    memory: Mapping[Key, Sequence[int]]
    totals: Mapping[str, int]
    receive: frozenset[str]  # contexts in which the DUT's program ran


def read_profiles(boot: Boot) -> dict[int, Profile]:
    """The profile of each trial by its slot, which is its window's id; a trial without its end has none.

    Raises XdpreproError where counts contradict themselves, or where a boot without failure left no whole file.
    """
    if boot.counts is None:
        return {}
    trials = _sort_trials(boot.lines)
    programs = {slot: tuple(_iter_programs(sides)) for slot, sides in trials.items()}
    symbols = parse_kallsyms(join_kallsyms(boot.lines))
    windows = parse_counts(boot.counts, symbols, programs, may_be_cut=boot.failure is not None)
    packets = {slot: _count_packets(sides["dut"]) for slot, sides in trials.items()}
    return {slot: make_profile(one, seen) for slot, one in windows.items() if (seen := packets.get(slot)) is not None}


def parse_counts(
    path: Path, symbols: Symbols, programs: Mapping[int, Sequence[Program]], *, may_be_cut: bool
) -> dict[int, Window]:
    """The windows of the plugin's file by their ids; where it may be cut, an unfinished last one is left out."""
    try:
        head, *blocks = path.read_text().split(WINDOW)
    except OSError as error:
        head, blocks = "", []
        if not may_be_cut:
            raise _wrong(path, error.strerror or str(error)) from None
    if not head.startswith(FORMAT) and not may_be_cut:
        raise _wrong(path, f"it begins with {head[:40]!r}, not {FORMAT!r}")
    find = cache(lambda text: symbols.find(int(text, 16)))
    windows: dict[int, Window] = {}
    for block in blocks:
        number, *lines = block.splitlines()
        if not lines or lines.pop() != f"end {number}":
            if may_be_cut and block is blocks[-1]:
                break
            raise _wrong(path, f"window {number} has no end")
        if int(number) in windows:
            raise _wrong(path, f"window {number} was closed twice")
        windows[int(number)] = _parse_window(path, number, lines, find, programs.get(int(number), ()))
    return windows


def make_profile(window: Window, packets: int) -> Profile:
    """By side instead of context, the most expensive first."""
    side_of = {
        context: "receive" if context in window.receive else SIDES[kind] for context, kind in window.kinds.items()
    }
    insn: Counter[Key] = Counter()
    memory: dict[Key, list[int]] = {}
    for (function, context), count in window.insn.items():
        insn[function, side_of[context]] += count
    for (function, context), counts in window.memory.items():
        sums = memory.setdefault((function, side_of[context]), [0] * len(MEMORY))
        memory[function, side_of[context]] = [a + b for a, b in zip(sums, counts, strict=True)]
    none: Sequence[int | None] = [0 if memory else None] * len(MEMORY)
    rows = [
        ProfileRow(*key, insn[key], *memory.get(key, none))
        for key in sorted(insn.keys() | memory.keys(), key=lambda key: (-insn[key], key))
    ]
    return Profile(packets=packets, rows=tuple(rows), total_insn=sum(window.totals.values()))


def _parse_window(path: Path, number: str, lines: Iterable[str], find: Names, programs: Sequence[Program]) -> Window:
    name = _make_names(find, programs)
    own = {program.name for program in programs if program.is_dut}
    kinds: dict[str, str] = {}
    insn: Counter[Key] = Counter()
    memory: dict[Key, list[int]] = {}
    totals: dict[str, int] = {}
    try:
        for kind, *words in map(str.split, lines):
            if kind == "i":
                address, context, count = words
                insn[name(address), context] += int(count)
            elif kind == "m":
                address, context, *counts = words
                key = name(address), context
                memory[key] = [a + int(b) for a, b in zip(memory.get(key, (0, 0, 0)), counts, strict=True)]
            elif kind == "context":
                kinds[words[0]] = words[1]
            elif kind == "total":
                totals[words[0]] = int(words[1])
    except ValueError as error:
        raise _wrong(path, f"window {number}: {error}") from None
    receive = frozenset(context for function, context in insn if function in own and kinds.get(context) == "poll")
    window = Window(kinds, insn, memory, totals, receive)
    _check(path, number, window)
    return window


def _check(path: Path, number: str, window: Window) -> None:
    """The plugin counts each context once more on its own; both must agree."""
    sums: Counter[str] = Counter()
    for (_, context), count in window.insn.items():
        sums[context] += count
    unknown = [kind for kind in window.kinds.values() if kind not in SIDES]
    if unknown:
        raise _wrong(path, f"window {number} has a context of the unknown kind {unknown[0]}")
    for context in sums.keys() | window.totals.keys() | {key[1] for key in window.memory}:
        if context not in window.kinds:
            raise _wrong(path, f"window {number} does not say what context {context} is")
        if sums[context] != window.totals.get(context, 0):
            fact = f"instructions {sums[context]}, total {window.totals.get(context, 0)}"
            raise _wrong(path, f"window {number}, context {context} ({window.kinds[context]}): {fact}")


def _make_names(find: Names, programs: Sequence[Program]) -> Names:
    """Functions by address; programs come and go, so that an address may be another's in the next window."""

    @cache
    def name(text: str) -> str:
        address = int(text, 16)
        own = next((program.name for program in programs if program.start <= address < program.end), None)
        return own or find(text)

    return name


def _sort_trials(lines: Iterable[Mapping[str, Any]]) -> dict[int, dict[str, list[Mapping[str, Any]]]]:
    """What both agents said, by slot and side."""
    trials: dict[int, dict[str, list[Mapping[str, Any]]]] = {}
    for line in lines:
        if "slot" in line:
            trials.setdefault(line["slot"], {"dut": [], "tester": []})[line["side"]].append(line["msg"])
    return trials


def _iter_programs(sides: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Program]:
    for side, messages in sides.items():
        ready = parse_stream(messages).ready
        for about in (ready.get("attach"), ready.get("generator")):
            if about and about.get("jited_addr"):
                start = int(about["jited_addr"], 16)
                name = f"bpf:{about.get('prog_name', 'generator')} ({side})"
                yield Program(start, start + about["jited_len"], name, is_dut=side == "dut")


def _count_packets(messages: Iterable[Mapping[str, Any]]) -> int | None:
    """What the DUT's program saw between the edges."""
    stream = parse_stream(messages)
    if "end" not in stream.edges:
        return None
    counters = stream.delta().items()
    return sum(n for name, n in counters if name.startswith("xdp_prog.") and name.endswith(".packets"))


def _wrong(path: Path, fact: str) -> XdpreproError:
    return XdpreproError(f"{path}: the counts of instructions are wrong: {fact}", hint="measure again")

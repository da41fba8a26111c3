# SPDX-License-Identifier: GPL-2.0-or-later
"""The file that the plugin writes (native/qemu-plugin/), by function and context."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xdprepro.guest.symbols import Symbols

FORMAT = "xdprepro-count 1 "
WINDOW = "\nwindow "
ERROR = "error "
UNOPENED = "close: "  # of a trial that failed before its window was opened
KINDS = ("poll", "generator", "app", "interrupt", "rest")

Key = tuple[str, str]  # function, context


@dataclass(frozen=True)
class Program:
    """Where a BPF program was in one trial, and how its function is shown."""

    start: int
    end: int
    name: str
    is_dut: bool


@dataclass(frozen=True)
class Window:
    """What was counted in one window; `memory` (loads, stores, cache lines) is empty but in a memory pass."""

    kinds: Mapping[str, str]  # of contexts
    insn: Mapping[Key, int]
    memory: Mapping[Key, Sequence[int]]
    totals: Mapping[str, int]  # of contexts, counted apart


@dataclass(frozen=True)
class Counts:
    """Whole windows by their ids, and why others are not whole.

    `stray` is what was wrong outside of all windows, and so why one that was expected is not there at all.
    """

    windows: Mapping[int, Window]
    faults: Mapping[int, str]
    stray: str


@dataclass(frozen=True)
class _Names:
    """Functions by address. Programs come and go, so that their addresses are not the same ones in all windows."""

    symbols: Symbols
    programs: Mapping[int, Sequence[Program]]
    fixed: dict[str, Key] = field(default_factory=dict)  # by the words before the count, where no program ever was


def parse_counts(path: Path, symbols: Symbols, programs: Mapping[int, Sequence[Program]]) -> Counts:
    """The windows by their ids, which `programs` has, too. One that went wrong spoils no other."""
    try:
        head, *blocks = path.read_text(errors="replace").split(WINDOW)
    except OSError as error:
        return Counts({}, {}, f"{path.name}: {error.strerror}")
    if not head.startswith(FORMAT):
        return Counts({}, {}, f"{path.name} begins with {head[:40]!r}, not {FORMAT!r}")
    names = _Names(symbols, programs)
    windows: dict[int, Window] = {}
    faults: dict[int, str] = {}
    stray = _find_complaints(head.splitlines())
    for block in blocks:
        text, *lines = block.splitlines()
        if not lines:
            continue  # the file was cut off here, maybe within the number
        number = int(text)
        try:
            if number in windows or number in faults:
                raise ValueError("it is there twice")
            whole, rest = _part_at_end(number, lines)
            stray += _find_complaints(rest)
            windows[number] = _parse_window(number, whole, names)
        except (ValueError, IndexError) as error:
            windows.pop(number, None)
            faults[number] = f"window {number}: {error}"
    return Counts(windows, faults, next((one for one in stray if not one.startswith(UNOPENED)), ""))


def _find_complaints(lines: Iterable[str]) -> list[str]:
    return [line.removeprefix(ERROR) for line in lines if line.startswith(ERROR)]


def _part_at_end(number: int, lines: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The window, and what follows it."""
    try:
        end = lines.index(f"end {number}")
    except ValueError:
        raise ValueError(next(iter(_find_complaints(lines)), "it has no end")) from None
    return lines[:end], lines[end + 1 :]


def _parse_window(number: int, lines: Iterable[str], names: _Names) -> Window:
    kinds: dict[str, str] = {}
    insn: Counter[Key] = Counter()
    memory: dict[Key, list[int]] = {}
    totals: dict[str, int] = {}
    fixed = names.fixed
    for line in lines:
        if line.startswith("i "):
            place, count = line.rsplit(" ", 1)
            insn[fixed.get(place) or _find_key(names, number, place)] += int(count)
            continue
        kind, *words = line.split()
        if kind == "m":
            key = _find_key(names, number, f"i {words[0]} {words[1]}")
            memory[key] = [a + int(b) for a, b in zip(memory.get(key, (0, 0, 0)), words[2:], strict=True)]
        elif kind == "context":
            kinds[words[0]] = words[1]
        elif kind == "total":
            totals[words[0]] = int(words[1])
    window = Window(kinds, insn, memory, totals)
    _check(window)
    return window


def _find_key(names: _Names, number: int, place: str) -> Key:
    _, text, context = place.split()
    address = int(text, 16)
    for program in names.programs.get(number, ()):
        if program.start <= address < program.end:
            return program.name, context
    key = names.symbols.find(address), context
    if not any(one.start <= address < one.end for programs in names.programs.values() for one in programs):
        names.fixed[place] = key
    return key


def _check(window: Window) -> None:
    """The plugin counts each context once more on its own, and both must agree."""
    sums: Counter[str] = Counter()
    for (_, context), count in window.insn.items():
        sums[context] += count
    for context in sorted(sums.keys() | window.totals.keys() | {context for _, context in window.memory}):
        kind, total = window.kinds.get(context), window.totals.get(context, 0)
        if kind not in KINDS:
            raise ValueError(f"context {context} is of the kind {kind}")
        if sums[context] != total:
            raise ValueError(f"context {context} ({kind}) has {sums[context]} instructions, its total is {total}")

# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions per packet, by function and side: the figure of runs that were counted, and what explains a change.

A boot counts a case in a short and a long window. The figure is the difference of the two over the difference of their
packets, so what a send costs once cancels. It is a class of its own, never a time: it sees no cache, no DMA, no clock.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

from xdprepro.sample import PROFILE_SIDES, Profile, Trial
from xdprepro.stats import is_counted, tested_sides
from xdprepro.validity import excluding
from xdprepro.view import RunView

# Code on the path of every packet costs a whole number of instructions; half of one is neither none nor one.
MIN_BOUND = 0.5
# Less than a table shows: such a function ran in a window, but not for its packets.
UNSEEN = 0.005

# What compilers append when they split or clone a function; another compiler or config splits others.
_SUFFIXES = r"(\.(cold|isra|constprop|part|llvm|lto_priv)(\.\d+)*)+"
_NAME = re.compile(rf"(?P<bare>.+?)({_SUFFIXES})?(?P<module> \[[^\]]+\])?")
# The tag hashes the program, and not in every kernel alike; one instruction more must not make it another function.
_TAG = re.compile(r"(?<=bpf_prog)_[0-9a-f]{16}(?=_|$)")


class Place(NamedTuple):
    """A function without its compiler's suffixes and its module, and the side it ran on."""

    function: str
    side: str


class Counts(NamedTuple):
    """What a packet costs in one place; the memory part is None where no memory pass counted it."""

    insn: float = 0.0
    loads: float | None = None
    stores: float | None = None
    lines: float | None = None


@dataclass(frozen=True, slots=True)
class BootCounts:
    """What one boot counted: per packet, and by side what a send cost once. `packets` is what the windows differ in."""

    boot: int
    packets: int
    places: Mapping[Place, Counts]
    once: Mapping[str, float]

    def on(self, *sides: str) -> float:
        """Instructions per packet on these sides together."""
        return sum(counts.insn for place, counts in self.places.items() if place.side in sides)


@dataclass(frozen=True, slots=True)
class CaseCounts:
    """One case of one run. The figure is that of the sides under test together; without boots there is none."""

    case_id: str
    sides: tuple[str, ...]
    boots: tuple[BootCounts, ...]
    excluded: tuple[tuple[Trial, tuple[str, ...]], ...]

    @property
    def has_memory(self) -> bool:
        """Whether loads, stores and lines were counted, too."""
        return any(counts.loads is not None for boot in self.boots for counts in boot.places.values())

    @property
    def nothing(self) -> Counts:
        """What a place counts that no boot met."""
        return Counts(0.0, 0.0, 0.0, 0.0) if self.has_memory else Counts()

    def on(self, *sides: str) -> float | None:
        """Instructions per packet on these sides together, mean over boots."""
        return fmean(one.on(*sides) for one in self.boots) if self.boots else None

    @property
    def figure(self) -> float | None:
        """Instructions per packet on the sides under test."""
        return self.on(*self.sides)

    @property
    def places(self) -> dict[Place, Counts]:
        """Every place of any boot, mean over boots."""
        found = sorted({place for boot in self.boots for place in boot.places})
        return {place: _mean([boot.places.get(place, self.nothing) for boot in self.boots]) for place in found}

    @property
    def spread(self) -> float:
        """The largest difference of the figure between two boots."""
        figures = [boot.on(*self.sides) for boot in self.boots]
        return max(figures) - min(figures) if figures else 0.0

    @property
    def boots_agree(self) -> bool:
        """Whether all boots counted the same for every function under test; true of a single one."""
        counts = [{key: one for key, one in boot.places.items() if key.side in self.sides} for boot in self.boots]
        return all(one == counts[0] for one in counts)

    @property
    def once_per_packet(self) -> float:
        """By how much the figure would move if what a send costs once were to happen once more in one window."""
        once = [abs(sum(boot.once[side] for side in self.sides)) / boot.packets for boot in self.boots]
        return max(once, default=0.0)


NO_COUNTS = CaseCounts("", (), (), ())


def is_exact(view: RunView) -> bool:
    """Whether the run counted instructions, so that it has no rates."""
    return any(map(is_counted, view.run.cases.values()))


def case_counts(view: RunView, case_id: str) -> CaseCounts:
    """The counts of one case of one run, from the boots with a usable short and long window."""
    trials = view.of_case(case_id)
    windows: dict[int, list[Profile]] = {}
    for one in trials:
        if one.usable and one.trial.profile:
            windows.setdefault(one.trial.key.boot, []).append(one.trial.profile)
    params = view.run.cases.get(case_id)
    return CaseCounts(
        case_id=case_id,
        sides=tested_sides(params) if params else ("receive",),
        boots=tuple(counts for boot, found in sorted(windows.items()) if (counts := _boot_counts(boot, found))),
        excluded=tuple((one.trial, excluding(one.flags)) for one in trials if not one.usable),
    )


def _boot_counts(boot: int, windows: Sequence[Profile]) -> BootCounts | None:
    """The line through the shortest and the longest window: its slope, and what it has at zero packets.

    Of several equally short ones it is the last, as the first ones fill caches, rings and slabs.
    """
    *_, short = (one for one in windows if one.packets == min(other.packets for other in windows))
    long = max(windows, key=lambda one: one.packets)
    packets = long.packets - short.packets
    if not packets:
        return None
    before, after = _fold(short), _fold(long)
    insn = [Counter[str]() for _ in range(2)]
    for sums, folded in zip(insn, (before, after), strict=True):
        for place, row in folded.items():
            sums[place.side] += row[0]
    once = {side: (insn[0][side] * long.packets - insn[1][side] * short.packets) / packets for side in PROFILE_SIDES}
    zero = (0,) * (4 if long.has_memory else 1)
    places = {
        place: Counts(
            *((y - x) / packets for x, y in zip(before.get(place, zero), after.get(place, zero), strict=True))
        )
        for place in sorted(before.keys() | after.keys())
    }
    return BootCounts(boot, packets, places, once)


def _fold(profile: Profile) -> dict[Place, tuple[int, ...]]:
    """The raw counts of a window, parts and clones of a function added up."""
    sums: dict[Place, tuple[int, ...]] = {}
    for row in profile.rows:
        place = Place(fold_function(row.function), row.side)
        counts = tuple(one for one in row[2:] if one is not None)
        sums[place] = tuple(map(sum, zip(sums[place], counts, strict=True))) if place in sums else counts
    return sums


def fold_function(name: str) -> str:
    """The function that this is a part, a clone or a module's copy of; a program without the hash in its name."""
    found = _NAME.fullmatch(name)
    return _TAG.sub("", found["bare"]) if found else name


def _mean(counts: list[Counts]) -> Counts:
    """Each kind of count over boots."""
    return Counts(*(fmean(kind) for kind in zip(*counts, strict=True) if None not in kind))


class Bound(NamedTuple):
    """The largest difference of two figures that is none, and what decided it."""

    insn: float
    reason: str


def find_bound(a: CaseCounts, b: CaseCounts, *, names: tuple[str, str] = ("A", "B")) -> Bound:
    """The largest of: half an instruction, what boots of one kernel differ in, what a send costs once."""
    found = [Bound(MIN_BOUND, "half an instruction")]
    for name, counts in zip(names, (a, b), strict=True):
        found.append(Bound(counts.spread, f"the boots of {name} differ by as much"))
        found.append(Bound(counts.once_per_packet, f"what a send costs {name} once, over the packets"))
    return max(found, key=lambda one: one.insn)


@dataclass(frozen=True, slots=True)
class CountComparison:
    """One case of both runs in instructions per packet. Without a figure on either side there is no bound."""

    case_id: str
    a: CaseCounts
    b: CaseCounts
    verdict: str
    reason: str
    bound: Bound | None = None

    @property
    def insn(self) -> float | None:
        """How many instructions per packet more B takes on the sides under test."""
        return self.more(*self.a.sides)

    def more(self, *sides: str) -> float | None:
        """How many instructions per packet more B takes on these sides."""
        a, b = self.a.on(*sides), self.b.on(*sides)
        return None if a is None or b is None else b - a

    @property
    def pct(self) -> float | None:
        """The same in percent of A."""
        return 100 * self.insn / self.a.figure if self.insn is not None and self.a.figure else None


def judge(a: CaseCounts, b: CaseCounts, *, margin_pct: float = 0.0) -> CountComparison:
    """The verdict on a case that both runs have a figure of; a margin that is wanted may widen the bound."""
    margin = Bound((a.figure or 0.0) * margin_pct / 100, f"the margin of {margin_pct:g} %")
    bound = max(find_bound(a, b), margin, key=lambda one: one.insn)
    case = CountComparison(a.case_id, a, b, "EQUIVALENT", f"within {bound.insn:.2f}", bound)
    if case.insn is None or abs(case.insn) <= bound.insn:
        return case
    verdict = "REGRESSED" if case.insn > 0 else "IMPROVED"
    return replace(case, verdict=verdict, reason=f"beyond {bound.insn:.2f}")

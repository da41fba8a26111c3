# SPDX-License-Identifier: GPL-2.0-or-later
"""Which functions a packet's instructions are in, and in which of them two runs differ."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from xdprepro.comparable import Mismatch
from xdprepro.errors import FAILED, USAGE, XdpreproError
from xdprepro.exact import NO_COUNTS, UNSEEN, CaseCounts, Counts, Place
from xdprepro.stats import is_counted
from xdprepro.table import Column, Row, Table, digits_cell, list_cell
from xdprepro.view import RunView, why_no_figure

MEMORY = ("loads", "stores", "lines")
UNIT_NOTE = "figures are instructions per packet"
FOLDED_PACKETS = 1000  # flame graphs take whole numbers only

# Functions of rep-prefixed instructions, of which every iteration is counted.
REPEATING = re.compile(r"_*(clear_page|copy_page|clear_user|copy_user|memset|memcpy|memmove|rep_(movs|stos))\w*")
REP_NOTE = "rep: made of rep-prefixed instructions, of which every iteration is counted; a CPU does many at a time"

INSN, CHANGE, SHARE = digits_cell(2), digits_cell(2, sign=True), digits_cell(1)


@dataclass(frozen=True, slots=True)
class Change:
    """One function in two runs."""

    place: Place
    a: Counts
    b: Counts

    @property
    def insn(self) -> float:
        """Instructions per packet more in B."""
        return self.b.insn - self.a.insn

    @property
    def mark(self) -> str:
        """NEW or GONE if packets meet it in one of the runs only."""
        a, b = (abs(one.insn) >= UNSEEN for one in (self.a, self.b))
        return "" if a == b else "NEW" if b else "GONE"


def is_repeating(function: str) -> bool:
    """Whether its instructions may be iterations of a rep-prefixed one, many of which a CPU does at a time."""
    return REPEATING.fullmatch(function) is not None


def find_case(views: Sequence[RunView], pattern: str) -> str:
    """The one case of all these runs that an id or a glob means, and that each has counted."""
    known = dict.fromkeys(case_id for view in views for case_id in (*view.run.cases, *view.run.skipped))
    found = [case_id for case_id in known if pattern == case_id] or [one for one in known if fnmatchcase(one, pattern)]
    if len(found) != 1:
        fact = f"{pattern!r} means {len(found)} cases: {', '.join(found)}" if found else f"no case {pattern!r}"
        hint = "name one of them" if found else f"there are {', '.join(known) or 'none at all'}"
        raise XdpreproError(fact, hint=hint, status=USAGE)
    return found[0]


def check_counted(view: RunView, counts: CaseCounts) -> None:
    """Raise XdpreproError where a run has no counts of a case."""
    if counts.boots:
        return
    fact = f"run {view.run.run_id}: no counts of {counts.case_id}"
    if counts.case_id not in (*view.run.cases, *view.run.skipped):
        raise XdpreproError(fact, hint="the case is not in the suite of this run", status=USAGE)
    if view.of_case(counts.case_id) and not is_counted(view.run.cases[counts.case_id]):
        raise XdpreproError(f"{fact}: it was timed", hint="count it: xdprepro run SUITE --lab vm", status=USAGE)
    raise XdpreproError(f"{fact}: {why_no_figure(view, counts.case_id)}", status=FAILED)


def find_changes(a: CaseCounts, b: CaseCounts, sides: Iterable[str]) -> tuple[Change, ...]:
    """Every function of these sides in either run, the largest change first; their sum is the whole difference."""
    left, right = a.places, b.places
    places = sorted(place for place in left.keys() | right.keys() if place.side in sides)
    changes = [Change(place, left.get(place, a.nothing), right.get(place, b.nothing)) for place in places]
    return tuple(sorted(changes, key=lambda one: -abs(one.insn)))


@dataclass(frozen=True, slots=True)
class _Line:
    """A row of a table: one function, those left out together, or the sum of a side."""

    kind: str
    function: str
    side: str
    changes: Sequence[Change]

    def add(self, kind: str) -> tuple[float | None, float | None]:
        """Counts of one kind in A and B. Lines do not add up, as functions share some."""
        if kind == "lines" and self.kind != "function":
            return None, None
        return _add([one.a for one in self.changes], kind), _add([one.b for one in self.changes], kind)

    def marks(self) -> list[str]:
        """What is to be known of a function besides its counts."""
        return ["rep"] if self.kind == "function" and is_repeating(self.function) else []


def _add(counts: Iterable[Counts], kind: str) -> float | None:
    """The sum, None where one of them was not counted."""
    values = [getattr(one, kind) for one in counts]
    return None if None in values else sum(values)


def _lines(changes: Sequence[Change], sides: Sequence[str], top: int) -> Iterator[_Line]:
    """Side by side the first functions, the others together, and the sum; then that of all sides."""
    for side in sides:
        ours = [one for one in changes if one.place.side == side]
        shown = [one for one in ours if abs(one.insn) >= UNSEEN][:top]
        yield from (_Line("function", one.place.function, side, [one]) for one in shown)
        if others := [one for one in ours if one not in shown]:
            yield _Line("others", f"({len(others)} others)", side, others)
        if ours:
            yield _Line("sum", f"sum of {side}", side, ours)
    if len(sides) > 1:
        yield _Line("sum", "sum", "all", changes)


def explain_table(
    a: CaseCounts, b: CaseCounts, *, sides: Sequence[str], top: int, doubts: Sequence[Mismatch] = ()
) -> Table:
    """The functions in which two runs differ, the largest difference first; `doubts` are what else may explain it."""
    changes = find_changes(a, b, sides)
    columns = (
        Column("function", "function", words=True),
        Column("side", "side", words=True, once=True),
        Column("insn_a", "A", INSN),
        Column("insn_b", "B", INSN),
        Column("delta_insn", "B - A", CHANGE),
        *(Column(f"delta_{kind}", f"{kind}, B - A", CHANGE) for kind in MEMORY if a.has_memory and b.has_memory),
        Column("marks", "", list_cell, words=True, once=True),
    )
    rows = tuple(_explain_row(line) for line in _lines(changes, sides, top))
    notes = [f"not comparable: {one.key} differs: see xdprepro compare" for one in doubts]
    return Table("explain", a.case_id, columns, rows, (UNIT_NOTE, *notes, *_mark_notes(rows)))


def _explain_row(line: _Line) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": line.kind, "function": line.function, "side": line.side}
    for kind in ("insn", *MEMORY):
        a, b = line.add(kind)
        row |= {f"{kind}_a": a, f"{kind}_b": b, f"delta_{kind}": None if a is None or b is None else b - a}
    marks = [one.mark for one in line.changes if line.kind == "function" and one.mark]
    return row | {"marks": [*marks, *line.marks()]}


def profile_table(counts: CaseCounts, *, sides: Sequence[str], top: int) -> Table:
    """The functions of one run, the most instructions first."""
    functions = find_changes(NO_COUNTS, counts, sides)
    columns = (
        Column("function", "function", words=True),
        Column("side", "side", words=True, once=True),
        Column("insn", "insn", INSN),
        Column("share_pct", "% of its side", SHARE),
        *(Column(kind, kind, INSN) for kind in MEMORY if counts.has_memory),
        Column("marks", "", list_cell, words=True, once=True),
    )
    rows = tuple(_profile_row(line, counts.on(line.side)) for line in _lines(functions, sides, top))
    return Table("profile", counts.case_id, columns, rows, (UNIT_NOTE, *_mark_notes(rows)))


def _profile_row(line: _Line, whole: float | None) -> dict[str, Any]:
    counts = {kind: line.add(kind)[1] for kind in ("insn", *MEMORY)}
    share = 100 * counts["insn"] / whole if whole and counts["insn"] is not None else None
    return {
        "kind": line.kind,
        "function": line.function,
        "side": line.side,
        **counts,
        "share_pct": share,
        "marks": line.marks(),
    }


def _mark_notes(rows: Iterable[Row]) -> Iterator[str]:
    if any("rep" in row["marks"] for row in rows):
        yield REP_NOTE


def format_folded(runs: Sequence[CaseCounts], sides: Sequence[str]) -> list[str]:
    """Lines `side;function COUNT`, for two runs `side;function COUNT_A COUNT_B`, as flame graph programs read them."""
    a, b = runs[0], runs[-1]
    lines = []
    for one in find_changes(a, b, sides):
        counts = [max(0, round(FOLDED_PACKETS * insn)) for insn in (one.a.insn, one.b.insn)][: len(runs)]
        if any(counts):
            lines.append(" ".join([f"{one.place.side};{one.place.function}", *map(str, counts)]))
    return sorted(lines)

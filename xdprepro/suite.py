# SPDX-License-Identifier: GPL-2.0-or-later
"""Suites and their cases: what is measured, in which variants, how often, in which order."""

import difflib
import itertools
import math
import random
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdprepro.cases import (
    MAX_LINES,
    PARAMETERS,
    Case,
    make_case,
    renamed,
    usual,
)
from xdprepro.errors import USAGE, XdpreproError
from xdprepro.kinds import CASE_KINDS
from xdprepro.rules import find_contradictions

MAX_CASES = 10_000  # of one suite; lists multiply, so a few lines could ask for more than any memory holds
SHOWN_CHARS = 200  # of a value in an error message
SHOWN_NAMES = 3  # of cases in an error message

KEYS = ("case", *PARAMETERS)


class Slot(NamedTuple):
    """One trial of a plan: restart `boot` (also its block), `trial` of `case_id`."""

    boot: int
    trial: int
    case_id: str


@dataclass(frozen=True, slots=True)
class Suite:
    """Cases x restarts x trials, and the seed that fixes their order."""

    name: str
    title: str
    cases: tuple[Case, ...]
    restarts: int
    trials: int
    seed: int
    text: str

    def plan(self, case_ids: Iterable[str], *, run: int = 0) -> tuple[Slot, ...]:
        """All trials in randomised blocks: each round of a restart goes once through the cases in a new order.

        Run `run` of several interleaved runs gets an order of its own; equal seed, cases and run give an equal plan.
        """
        rng = random.Random(f"{self.seed}/{run}")
        ids = list(case_ids)
        slots = []
        for boot, trial in itertools.product(range(self.restarts), range(self.trials)):
            slots += [Slot(boot, trial, case_id) for case_id in rng.sample(ids, len(ids))]
        return tuple(slots)

    def trial_s(self, case: Case) -> float:
        """The time that one trial takes by plan, without starting and stopping."""
        return case.settle_s + case.measure_s


def parse_suite(text: str, name: str) -> Suite:
    """A suite from TOML; every mistake is a usage error that names suite, key, value and what is allowed."""
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise _bad(name, "not valid TOML: lists or tables are nested too deep", "a list holds plain values") from None
    except ValueError as error:  # a TOMLDecodeError, or an integer of thousands of digits
        raise _bad(name, f"not valid TOML: {_cut(str(error))}", "mend the file at the place named") from None
    _known_keys(name, data, ("title", "restarts", "trials", "seed", "defaults", "case"))
    defaults = data.get("defaults", {})
    rows = data.get("case", [])
    if not isinstance(defaults, dict) or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _bad(
            name, "[defaults] must be one table and [[case]] a list of tables", "see 'xdprepro suite show smoke'"
        )
    if not rows:
        raise _bad(name, "the suite has no [[case]]", 'add one: [[case]], then case = "xdp.drop.no-touch"')
    _check_defaults(name, defaults)
    grids = [_read_grid(name, one, defaults) for row in rows for one in _single_kinds(name, row)]
    count = sum(math.prod(map(len, grid.values())) for grid in grids)
    if count > MAX_CASES:
        raise _bad(name, f"its lists multiply to {count} cases", f"shorten them: a suite has {MAX_CASES} cases at most")
    cases = tuple(case for grid in grids for case in _expand(name, grid))
    for case_id, group in itertools.groupby(sorted(case.id for case in cases)):
        if len(list(group)) > 1:
            raise _bad(name, f"case {case_id} is there twice", "remove one of the two")
    title = data.get("title", "")
    if not isinstance(title, str):
        raise _bad(name, f"title = {_show(title)} is not allowed", "use a text")
    return Suite(
        name=name,
        title=title,
        cases=cases,
        restarts=_count(name, data, "restarts", 3),
        trials=_count(name, data, "trials", 1),
        seed=_count(name, data, "seed", 1, low=0, high=2**31),
        text=text,
    )


def _check_defaults(name: str, defaults: Mapping[str, object]) -> None:
    """Every one of them, as some may be for no case that the suite has."""
    _known_keys(name, defaults, PARAMETERS)
    for key, values in _list_values(defaults).items():
        for value in values:
            _check(name, key, value)


def _single_kinds(name: str, row: Mapping[str, object]) -> list[Mapping[str, object]]:
    """A [[case]] of several kinds is one of each."""
    kinds = row.get("case")
    if kinds == []:
        raise _bad(name, "case is an empty list", "give case a value or remove the [[case]]")
    return [{**row, "case": kind} for kind in kinds] if isinstance(kinds, list) else [row]


def _read_grid(name: str, row: Mapping[str, object], defaults: Mapping[str, object]) -> dict[str, list[object]]:
    """All the values of each parameter that one [[case]] or the suite's defaults name, as far as they are for it."""
    _known_keys(name, row, KEYS)
    kind_name = row.get("case")
    if kind_name is None:
        known = ", ".join(CASE_KINDS)
        raise _bad(name, f"a [[case]] has no case name: {_show(row)}", f"add one of: {known}")
    _check(name, "case", kind_name)
    kind = CASE_KINDS[str(kind_name)]
    for key in row:
        if key != "case" and PARAMETERS[key].group not in kind.groups:
            owners = _format_owners(PARAMETERS[key].group)
            raise _bad(name, f"{kind_name}: {key} is for {owners} only", f"remove {key} from this case")
    own = {key: value for key, value in defaults.items() if PARAMETERS[key].group in kind.groups}
    grid = _list_values({**own, **row})
    for key, values in grid.items():
        if not values:
            raise _bad(name, f"{kind_name}: {key} is an empty list", f"give {key} a value or remove it")
    _check_conditions(name, str(kind_name), row, grid)
    return grid


def _list_values(table: Mapping[str, object]) -> dict[str, list[object]]:
    """Each key with its values; of what is a list by itself, only a list of lists has several."""
    return {
        key: value if isinstance(value, list) and _has_several(key, value) else [value] for key, value in table.items()
    }


def _has_several(key: str, value: list[object]) -> bool:
    return key == "case" or type(usual(key)) is not tuple or all(isinstance(one, list) for one in value)


def _format_owners(group: str) -> str:
    """The cases that have a group of parameters: each by name if they are few, else by layers."""
    names = [name for name, kind in CASE_KINDS.items() if group in kind.groups]
    if len(names) <= SHOWN_NAMES:
        return f"{', '.join(names)} cases"
    return f"{', '.join(dict.fromkeys(name.partition('.')[0] + '.*' for name in names))} cases"


def _check_conditions(
    name: str, kind_name: str, row: Mapping[str, object], grid: Mapping[str, Sequence[object]]
) -> None:
    """A parameter that no cell of its [[case]] could use is a mistake."""
    for key in row:
        if key != "case" and (only_if := PARAMETERS[key].only_if):
            other, wanted = only_if
            if wanted not in grid.get(other, [usual(other)]):
                hint = f'add {other} = "{wanted}", or remove {key}'
                raise _bad(name, f"{kind_name}: {key} means nothing without {other} = {wanted}", hint)


def _expand(name: str, grid: Mapping[str, list[object]]) -> list[Case]:
    """One Case for each combination of the values."""
    return [_case(name, dict(zip(grid, cell, strict=True))) for cell in itertools.product(*grid.values())]


def _case(name: str, cell: Mapping[str, object]) -> Case:
    case = make_case({key: _check(name, key, value) for key, value in cell.items()})
    for fact, hint in find_contradictions(case):
        raise _bad(name, f"{case.id}: {fact}", hint)
    return case


def _check(name: str, key: str, value: object) -> object:
    """The value as the case holds it, or an error that says what is allowed."""
    if key == "case":
        if isinstance(value, str) and value in CASE_KINDS:
            return value
        raise _unknown_word(name, key, value, CASE_KINDS)
    words, wanted, allowed = PARAMETERS[key].words, type(usual(key)), PARAMETERS[key].allowed
    if wanted is tuple:
        if isinstance(value, list) and value and all(_is_number(one) and _allows(allowed, one) for one in value):
            return tuple(sorted({float(one) for one in value}))
        raise _bad(name, f"{key} = {_show(value)} is not allowed", f"use a list of {words}")
    if isinstance(allowed, re.Pattern):
        if (
            isinstance(value, str)
            and allowed.fullmatch(value)
            or type(value) is int
            and value in range(1, MAX_LINES + 1)
        ):
            return value
        raise _bad(name, f"{key} = {_show(value)} is not allowed", f"use {words}")
    # The type itself, as a bool is an int for isinstance; whole seconds may be written without a point.
    if (type(value) is wanted or (wanted is float and type(value) is int)) and _allows(allowed, value):
        return float(value) if wanted is float else value  # type: ignore[arg-type]  # an int or a float
    if wanted is str:
        raise _unknown_word(name, key, value, allowed)
    words = words or "true or false"
    raise _bad(name, f"{key} = {_show(value)} is not allowed", f"use {words}")


def _unknown_word(name: str, key: str, value: object, allowed: Iterable[str]) -> XdpreproError:
    words = list(allowed)
    now = renamed(key, value)
    close = difflib.get_close_matches(value[:SHOWN_CHARS] if isinstance(value, str) else "", words, 1)
    hint = f"did you mean {close[0]}?" if close else f"use one of {', '.join(words)}"
    return _bad(name, f"{key} = {_show(value)} is unknown", hint if now == value else f"it is called {now} now")


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _allows(allowed: object, value: object) -> bool:
    """Whether a value is in a set of words or numbers, or between two floats."""
    match allowed:
        case (float() as low, float() as high):
            assert isinstance(value, int | float)
            return low <= value <= high
        case tuple() | range():
            return value in allowed
    raise AssertionError(allowed)


def _known_keys(name: str, table: Mapping[str, object], known: Iterable[str]) -> None:
    known = list(known)
    for key in table:
        if key not in known:
            close = difflib.get_close_matches(key[:SHOWN_CHARS], known, 1)
            raise _bad(
                name, f"unknown key {_show(key)}", f"did you mean {close[0]}?" if close else f"use {', '.join(known)}"
            )


def _count(name: str, data: Mapping[str, object], key: str, default: int, *, low: int = 1, high: int = 1000) -> int:
    value = data.get(key, default)
    if type(value) is not int or not low <= value <= high:
        raise _bad(name, f"{key} = {_show(value)} is not allowed", f"use a whole number, {low} to {high}")
    return value


def _show(value: object) -> str:
    """The value as far as it fits into a message."""
    try:
        return _cut(repr(value))
    except (ValueError, RecursionError):  # an integer of thousands of digits; tables in tables in tables
        return f"({type(value).__name__}, too long to show)"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}... ({len(text)} characters)"


def _bad(name: str, fact: str, hint: str) -> XdpreproError:
    return XdpreproError(f"suite {name}: {fact}", hint=hint, status=USAGE)


def is_suite_name(name: str) -> bool:
    """Whether this is a plain name rather than a path."""
    return re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name) is not None

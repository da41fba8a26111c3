# SPDX-License-Identifier: GPL-2.0-or-later
"""Suites and their cases: what is measured, in which variants, how often, in which order."""

import difflib
import itertools
import math
import random
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

from xdprepro.errors import USAGE, XdpreproError


@dataclass(frozen=True, slots=True)
class CaseKind:
    """What the packets of a case meet: `action` is what the program must return, `role` the agent's part on the DUT."""

    role: str
    action: str
    about: str
    uses_xsk: bool = False


CASE_KINDS: Mapping[str, CaseKind] = {
    "xdp.drop.no-touch": CaseKind("sink", "XDP_DROP", "drop without looking at the packet"),
    "xdp.drop.read-data": CaseKind("sink", "XDP_DROP", "read the Ethernet header, then drop"),
    "xdp.pass.no-touch": CaseKind("sink", "XDP_PASS", "hand every packet to the stack, which drops it"),
    "xdp.tx.swap-macs": CaseKind("forward", "XDP_TX", "swap the MAC addresses, send back out of the same port"),
    "xdp.redirect.swap-macs": CaseKind("forward", "XDP_REDIRECT", "the same by bpf_redirect() to an ifindex"),
    "xdp.redirect-map.swap-macs": CaseKind("forward", "XDP_REDIRECT", "the same by bpf_redirect_map() and a devmap"),
    "xsk.rxdrop": CaseKind(
        "sink", "XDP_REDIRECT", "redirect to an AF_XDP socket, which drops in user space", uses_xsk=True
    ),
}

MAX_CASES = 10_000  # of one suite; lists multiply, so a few lines could ask for more than any memory holds
SHOWN_CHARS = 200  # of a value in an error message

ATTACH_MODES = ("native", "skb")
BIND_MODES = ("copy", "zero-copy")
GENERATORS = ("auto", "live-frames", "af-packet")
WAKEUPS = ("busy", "poll")


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of a suite. Lengths are without FCS; durations in seconds; what is for sockets is empty elsewhere."""

    case: str
    attach_mode: str = "native"
    bind_mode: str = ""
    wakeup: str = ""
    frame_len: int = 60
    flows: int = 1
    generator_batch: int = 64
    generator: str = "auto"
    generators: int = 1
    xsk_batch: int = 0
    xsk_ring_rx: int = 0
    settle_s: float = 0.2
    measure_s: float = 1.0
    interval_s: float = 0.05

    @property
    def kind(self) -> CaseKind:
        """The row of CASE_KINDS."""
        return CASE_KINDS[self.case]

    @property
    def id(self) -> str:
        """A slug in fixed order, legal as an HDF5 group name: case, modes, frame length, then what is not default."""
        words = [self.case, self.attach_mode, *([self.bind_mode] if self.bind_mode else []), f"{self.frame_len}B"]
        usual = {**_DEFAULTS, **(_XSK_DEFAULTS if self.kind.uses_xsk else {})}
        words += [f"{key}-{value}" for key in _ID_EXTRAS if (value := getattr(self, key)) != usual[key]]
        return ".".join(words)


_ID_EXTRAS = ("wakeup", "flows", "generator", "generators", "generator_batch", "xsk_batch", "xsk_ring_rx")
_DEFAULTS = {field.name: field.default for field in fields(Case)}
_XSK_DEFAULTS = {"bind_mode": "copy", "wakeup": "busy", "xsk_batch": 64, "xsk_ring_rx": 2048}

# name -> (type, what is allowed, check)
_LIMITS: Mapping[str, tuple[type, str, object]] = {
    "case": (str, "", tuple(CASE_KINDS)),
    "attach_mode": (str, "", ATTACH_MODES),
    "bind_mode": (str, "", BIND_MODES),
    "wakeup": (str, "", WAKEUPS),
    "generator": (str, "", GENERATORS),
    # The longest frame that native XDP takes in one page on every driver; the agent has the same limit.
    "frame_len": (int, "60 to 3400 bytes without FCS", range(60, 3401)),
    "flows": (int, "1 to 60000", range(1, 60001)),
    "generator_batch": (int, "1 to 256", range(1, 257)),
    "xsk_batch": (int, "1 to 256", range(1, 257)),
    "generators": (int, "1 to 256 CPUs", range(1, 257)),
    "xsk_ring_rx": (int, "a power of two, 64 to 32768", tuple(1 << n for n in range(6, 16))),
    "settle_s": (float, "0 to 600 s", (0.0, 600.0)),
    "measure_s": (float, "0.05 to 3600 s", (0.05, 3600.0)),
    "interval_s": (float, "0.005 to 60 s", (0.005, 60.0)),
}


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
    _known_keys(name, defaults, [key for key in _LIMITS if key != "case"])
    grids = [_read_grid(name, row, defaults) for row in rows]
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


def _read_grid(name: str, row: Mapping[str, object], defaults: Mapping[str, object]) -> dict[str, list[object]]:
    """All the values of each parameter of one [[case]]."""
    _known_keys(name, row, _LIMITS)
    kind_name = row.get("case")
    if kind_name is None:
        raise _bad(name, f"a [[case]] has no case name: {_show(row)}", f"add one of: {', '.join(CASE_KINDS)}")
    _check(name, "case", kind_name)
    kind = CASE_KINDS[str(kind_name)]
    for key in _XSK_DEFAULTS:
        if key in row and not kind.uses_xsk:
            raise _bad(name, f"{kind_name}: {key} is for xsk.* cases only", f"remove {key} from this case")
    merged = {**_DEFAULTS, **(_XSK_DEFAULTS if kind.uses_xsk else {}), **defaults, **row}
    if not kind.uses_xsk:
        merged.update(dict.fromkeys(_XSK_DEFAULTS, ""))
    grid = {key: value if isinstance(value, list) else [value] for key, value in merged.items()}
    for key, values in grid.items():
        if not values:
            raise _bad(name, f"{kind_name}: {key} is an empty list", f"give {key} a value or remove it")
    return grid


def _expand(name: str, grid: Mapping[str, list[object]]) -> list[Case]:
    """One Case for each combination of the values."""
    return [_case(name, dict(zip(grid, cell, strict=True))) for cell in itertools.product(*grid.values())]


def _case(name: str, cell: Mapping[str, object]) -> Case:
    values = {key: _check(name, key, value) for key, value in cell.items() if value != ""}
    case = Case(**values)  # type: ignore[arg-type]  # each value was checked against its type just above
    if case.interval_s * 2 > case.measure_s:
        raise _bad(
            name,
            f"{case.id}: interval_s {case.interval_s} leaves fewer than two intervals in measure_s {case.measure_s}",
            "make measure_s at least twice interval_s",
        )
    return case


def _check(name: str, key: str, value: object) -> object:
    wanted, words, allowed = _LIMITS[key]
    # The type itself, as a bool is an int for isinstance; whole seconds may be written without a point.
    if (type(value) is wanted or (wanted is float and type(value) is int)) and _allows(allowed, value):
        return float(value) if wanted is float else value  # type: ignore[arg-type]  # an int or a float
    if wanted is str and isinstance(allowed, tuple):
        words = "one of " + ", ".join(map(str, allowed))
        text = value[:SHOWN_CHARS] if isinstance(value, str) else ""
        close = difflib.get_close_matches(text, [str(one) for one in allowed], 1)
        raise _bad(name, f"{key} = {_show(value)} is unknown", f"did you mean {close[0]}?" if close else f"use {words}")
    raise _bad(name, f"{key} = {_show(value)} is not allowed", f"use {words}")


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

# SPDX-License-Identifier: GPL-2.0-or-later
"""What a step of packet processing costs: the difference per packet between two cases of one run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdprepro import stats
from xdprepro.cases import PARAMETERS
from xdprepro.exact import case_counts
from xdprepro.stats import is_counted, kind_of, measures_rate
from xdprepro.view import RunView, case_rates

# (name of the step, case without it, case with it)
COSTS = (
    ("read the Ethernet header", "xdp.drop.no-touch", "xdp.drop.read-data"),
    ("hand to the stack", "xdp.drop.no-touch", "xdp.pass.no-touch"),
    ("redirect instead of tx", "xdp.tx.swap-macs", "xdp.redirect.swap-macs"),
    ("redirect-map instead of tx", "xdp.tx.swap-macs", "xdp.redirect-map.swap-macs"),
    ("redirect-map instead of redirect", "xdp.redirect.swap-macs", "xdp.redirect-map.swap-macs"),
)
# No step to xsk.*: there two CPUs work at once, and the difference of the rates is the cost of neither.


@dataclass(frozen=True, slots=True)
class CountCost:
    """One step between two case_ids in instructions per packet; `delta_insn` is None where `note` says why."""

    name: str
    without: str
    with_: str
    delta_insn: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """One step between two case_ids; `delta_ns` and its 99 % interval are None where `note` says why."""

    name: str
    without: str
    with_: str
    restarts: int
    delta_ns: float | None = None
    interval_ns: tuple[float, float] | None = None
    note: str = ""


def case_costs(view: RunView) -> tuple[Cost, ...]:
    """All steps in time that the cases of a run allow: both cases are there, with the same parameters."""
    return tuple(_cost(view, *step) for step in _steps(view) if not is_counted(view.run.cases[step[1]]))


def count_costs(view: RunView) -> tuple[CountCost, ...]:
    """The same in instructions."""
    return tuple(_count_cost(view, *step) for step in _steps(view) if is_counted(view.run.cases[step[1]]))


def _count_cost(view: RunView, name: str, one: str, other: str) -> CountCost:
    without, with_ = (case_counts(view, case_id).figure for case_id in (one, other))
    if without is None or with_ is None:
        return CountCost(name, one, other, note=f"no figure of {one if without is None else other}")
    return CountCost(name, one, other, with_ - without)


def _steps(view: RunView) -> Iterator[tuple[str, str, str]]:
    return (
        (name, one, other)
        for name, without, with_ in COSTS
        for one in _ids_of(view, without)
        for other in _ids_of(view, with_)
        if _are_alike(view.run.cases[one], view.run.cases[other])
    )


def _ids_of(view: RunView, case: str) -> Iterator[str]:
    cases = view.run.cases.items()
    return (case_id for case_id, params in cases if params["case"] == case and measures_rate(params))


def _are_alike(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether two cases have the same parameters; one that only one of the kinds has is part of the step."""
    groups = kind_of(one).groups & kind_of(other).groups
    apart = {"case", *(name for name, parameter in PARAMETERS.items() if parameter.group not in groups)}
    return all(one.get(key) == other.get(key) for key in (one.keys() | other.keys()) - apart)


def _cost(view: RunView, name: str, one: str, other: str) -> Cost:
    """Paired by restart, as both cases of a restart share what the restart brought; only restarts with both count."""
    without, with_ = (
        dict(zip(rates.boots, rates.ns.tolist(), strict=True))
        for rates in (case_rates(view, case_id) for case_id in (one, other))
    )
    boots = sorted(without.keys() & with_.keys())
    if not boots:
        return Cost(name, one, other, 0, note="no restart has usable trials of both")
    if len(boots) == 1:
        delta_ns = with_[boots[0]] - without[boots[0]]
        return Cost(name, one, other, 1, delta_ns, note="one restart: no interval")
    found = stats.paired_interval([without[boot] for boot in boots], [with_[boot] for boot in boots])
    return Cost(name, one, other, len(boots), found.delta, (found.low, found.high))

# SPDX-License-Identifier: GPL-2.0-or-later
"""What a step of packet processing costs: the difference per packet between two cases of one run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdprepro import intervals
from xdprepro.cases import PARAMETERS
from xdprepro.exact import Bound, case_counts, find_bound
from xdprepro.kinds import FORWARD_WORKS, SINK_WORKS
from xdprepro.load import is_saturated
from xdprepro.stats import is_counted, kind_of, measures_rate
from xdprepro.view import RunView, case_rates

# (name of the step, case without it, case with it)
COSTS = (
    ("read the Ethernet header", "xdp.drop.no-touch", "xdp.drop.read-data"),
    ("parse Ethernet and IP", "xdp.drop.no-touch", "xdp.drop.parse-ip"),
    ("swap the MAC addresses", "xdp.drop.no-touch", "xdp.drop.swap-macs"),
    ("swap the MAC addresses", "xdp.tx.no-touch", "xdp.tx.swap-macs"),
    ("hand to the stack", "xdp.drop.no-touch", "xdp.pass.no-touch"),
    ("abort instead of drop", "xdp.drop.no-touch", "xdp.abort.no-touch"),
    ("send back instead of drop", "xdp.drop.swap-macs", "xdp.tx.swap-macs"),
    ("redirect instead of tx", "xdp.tx.swap-macs", "xdp.redirect.swap-macs"),
    ("redirect-map instead of tx", "xdp.tx.swap-macs", "xdp.redirect-map.swap-macs"),
    ("redirect-map instead of redirect", "xdp.redirect.swap-macs", "xdp.redirect-map.swap-macs"),
    ("copies instead of one packet", "xdp.redirect-map.swap-macs", "xdp.redirect-multi.swap-macs"),
    ("drop at TC instead of XDP", "xdp.drop.no-touch", "tc.drop.no-touch"),
    ("redirect at TC instead of XDP", "xdp.redirect.swap-macs", "tc.redirect.swap-macs"),
    ("a socket bound to the queue", "xdp.drop.no-touch", "xdpxsk.drop.no-touch"),
    ("a socket bound to the queue", "xdp.tx.swap-macs", "xdpxsk.tx.swap-macs"),
    *((f"work: {work}", "xdp.drop.no-touch", f"xdp.drop.{work}") for work in SINK_WORKS),
    *((f"work: {work}", "xdp.tx.swap-macs", f"xdp.tx.{work}") for work in FORWARD_WORKS),
    ("an access list before the balancer", "xdp.tx.lb", "xdp.tx.lbfw"),
)
# Steps between cases in which two CPUs work at once: the difference of the rates is the cost of neither, but what is
# counted in instructions is.
COUNTED_COSTS = (
    ("hand to a socket", "xdp.drop.no-touch", "xsk.rxdrop"),
    ("send back from a socket", "xsk.rxdrop", "xsk.l2fwd.swap-macs"),
    ("swap the MAC addresses in user space", "xsk.rxdrop", "xsk.rxdrop.swap-macs"),
    ("hand to another CPU", "xdp.drop.no-touch", "xdp.redirect-cpu.no-touch"),
)


@dataclass(frozen=True, slots=True)
class CountCost:
    """One step between two case_ids in instructions per packet; `delta_insn` is None where `note` says why.

    A smaller difference than the bound is none: it is what the counts themselves may be off by.
    """

    name: str
    without: str
    with_: str
    delta_insn: float | None = None
    bound: Bound | None = None
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
    return tuple(_cost(view, *step) for step in _steps(view, COSTS) if not is_counted(view.run.cases[step[1]]))


def count_costs(view: RunView) -> tuple[CountCost, ...]:
    """The same in instructions."""
    steps = _steps(view, (*COSTS, *COUNTED_COSTS))
    return tuple(_count_cost(view, *step) for step in steps if is_counted(view.run.cases[step[1]]))


def _count_cost(view: RunView, name: str, one: str, other: str) -> CountCost:
    without, with_ = (case_counts(view, case_id) for case_id in (one, other))
    if without.figure is None or with_.figure is None:
        return CountCost(name, one, other, note=f"no figure of {one if without.figure is None else other}")
    return CountCost(name, one, other, with_.figure - without.figure, find_bound(without, with_, names=(one, other)))


def _steps(view: RunView, steps: Sequence[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    return (
        (name, one, other)
        for name, without, with_ in steps
        for one in _ids_of(view, without)
        for other in _ids_of(view, with_)
        if _are_alike(view.run.cases[one], view.run.cases[other])
    )


def _ids_of(view: RunView, case: str) -> Iterator[str]:
    cases = view.run.cases.items()
    return (
        case_id
        for case_id, params in cases
        if params["case"] == case and measures_rate(params) and is_saturated(params)
    )


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
    found = intervals.paired_interval([without[boot] for boot in boots], [with_[boot] for boot in boots])
    return Cost(name, one, other, len(boots), found.delta, (found.low, found.high))

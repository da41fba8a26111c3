# SPDX-License-Identifier: GPL-2.0-or-later
"""What the passes tell that measure no rate: why packets were lost, how polls were filled, what the processor did.

Each counts over the trials of a case that ended well; the load that they were at is named beside.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xdprepro.sample import Counters, Sample, Trial
from xdprepro.stats import measured, measures_rate, rate_pattern, sum_counters
from xdprepro.surroundings import read_source, receiving_cpus
from xdprepro.table import Column, Table, digits_cell, list_cell, percent_cell
from xdprepro.validity import MEANINGS, flag_names
from xdprepro.view import RunView, TrialView, case_rates, figure_name, loss_ratios

POLL = re.compile(r"cpu\d+\.work(\d+)")
OF_CPU = re.compile(r"cpu(\d+)\.(.*)")
WHOLE_MACHINE = "counted of the whole machine, as the kernel has no BTF"
TIMES = ("enabled_ns", "running_ns")
# What makes a case one of a pass, or gives its load; without them it is the case that measures the rate.
OF_THE_PASS = {"pass", "pmu_group", "load", "rate_pps", "outstanding", "loss_ratios", "width"}


@dataclass(frozen=True, slots=True)
class EventCount:
    """An event of the PMU on the CPUs that received, in the measure phases; `share` is how long it was counted."""

    name: str
    events: int
    packets: int
    share: float

    @property
    def per_packet(self) -> float | None:
        """What it would have been had it been counted all the time."""
        return self.events / self.share / self.packets if self.packets and self.share else None


def pass_cases(view: RunView, which: str) -> list[str]:
    """The cases of one pass."""
    return [case_id for case_id, params in view.run.cases.items() if params.get("pass", "rate") == which]


def pass_tables(view: RunView) -> list[Table]:
    """A table for each pass that the run has cases of."""
    tables = ((diagnostic_table, "diagnostic"), (pmu_table, "pmu"))
    return [make(view) for make, which in tables if pass_cases(view, which)]


def diagnostic_table(view: RunView) -> Table:
    """What the tracepoints counted, summed over CPUs and trials."""
    rows = [row for case_id in pass_cases(view, "diagnostic") for row in _diagnostic_rows(view, case_id)]
    columns = (
        Column("case_id", "case", words=True),
        Column("counter", "counter", words=True),
        Column("count", "count"),
        Column("per_packet", "per packet", digits_cell(5)),
        Column("load", "load", words=True, once=True),
        Column("trials", "trials", once=True),
        Column("flags", "flags", list_cell, words=True, once=True),
        Column("note", "note", words=True, once=True),
    )
    return Table("diagnostic", "Diagnostic pass: what tracepoints tell", columns, tuple(rows), _notes(rows))


def _diagnostic_rows(view: RunView, case_id: str) -> Iterator[dict[str, Any]]:
    trials = _good(view, case_id)
    seen = sum(sum_counters(one.trial.dut.delta(), rate_pattern(view.run.cases[case_id])) for one in trials)
    counts: Counter[str] = Counter()
    for one in trials:
        counts.update(count_tracepoints(one.trial))
    common = {
        "case_id": case_id,
        "load": format_load(view, case_id),
        "trials": len(trials),
        "flags": _flags(trials),
        "note": "" if all(_sees_only_ours(one.trial) for one in trials) else WHOLE_MACHINE,
    }
    if not trials:
        yield common | {"counter": "none", "count": None, "per_packet": None, "note": "no trial ended well"}
    elif not counts:
        yield common | {"counter": "none", "count": 0, "per_packet": None}
    for name, count in sorted(counts.items()):
        yield common | {"counter": name, "count": count, "per_packet": count / seen if seen else None}


def _sees_only_ours(trial: Trial) -> bool:
    return bool(trial.dut.ready.get("tracepoints", {}).get("only_ours", True))


def count_tracepoints(trial: Trial) -> Counter[str]:
    """Errors of a trial by name, the polls of its port, and how many of those found nothing."""
    counts: Counter[str] = Counter()
    for name, count in _grown(trial, "xdp_errors").items():
        found = OF_CPU.fullmatch(name)
        counts[found[2] if found else name] += count
    for name, count in _grown(trial, "napi").items():
        if found := POLL.fullmatch(name):
            counts["napi_poll.polls"] += count
            counts["napi_poll.packets"] += count * int(found[1])
            counts["napi_poll.empty"] += count if found[1] == "0" else 0
    return counts


def _grown(trial: Trial, source: str) -> dict[str, int]:
    start, end = (read_source(trial.dut, edge, source) for edge in ("start", "end"))
    return {name: value - start.get(name, 0) for name, value in end.items()}


def pmu_table(view: RunView) -> Table:
    """Events for each packet, on the CPUs that received."""
    rows = [row for case_id in pass_cases(view, "pmu") for row in _pmu_rows(view, case_id)]
    columns = (
        Column("case_id", "case", words=True),
        Column("event", "event", words=True),
        Column("per_packet", "per packet", digits_cell(4)),
        Column("counted_pct", "counted, % of the time", percent_cell, once=True),
        Column("load", "load", words=True, once=True),
        Column("trials", "trials", once=True),
        Column("flags", "flags", list_cell, words=True, once=True),
    )
    return Table("pmu", "PMU pass: events on the CPUs that received", columns, tuple(rows), _notes(rows))


def _pmu_rows(view: RunView, case_id: str) -> Iterator[dict[str, Any]]:
    trials = _good(view, case_id)
    totals: dict[str, EventCount] = {}
    for one in trials:
        for event in count_events(one.trial, view.run.cases[case_id]):
            old = totals.get(event.name, EventCount(event.name, 0, 0, 1.0))
            share = min(old.share, event.share)
            totals[event.name] = EventCount(event.name, old.events + event.events, old.packets + event.packets, share)
    for event in totals.values():
        yield {
            "case_id": case_id,
            "event": event.name,
            "per_packet": event.per_packet,
            "counted_pct": 100 * event.share,
            "load": format_load(view, case_id),
            "trials": len(trials),
            "flags": _flags(trials),
        }


def count_events(trial: Trial, params: Mapping[str, Any]) -> list[EventCount]:
    """The events of a trial from the first to the last sample of the measure phase."""
    samples = measured(trial.dut.samples)
    if len(samples) < 2:
        return []
    cpus = receiving_cpus(trial.dut)
    grown = _events_of(samples[0], samples[-1], cpus)
    packets = _count(samples[-1].counters, params) - _count(samples[0].counters, params)
    share = grown["running_ns"] / grown["enabled_ns"] if grown["enabled_ns"] else 0.0
    return [EventCount(name, count, packets, share) for name, count in sorted(grown.items()) if name not in TIMES]


def _count(counters: Counters, params: Mapping[str, Any]) -> int:
    return sum_counters(counters, rate_pattern(params))


def _events_of(first: Sample, last: Sample, cpus: set[int]) -> Counter[str]:
    grown: Counter[str] = Counter()
    for name, value in last.counters.items():
        found = OF_CPU.fullmatch(name.removeprefix("pmu.")) if name.startswith("pmu.") else None
        if found and int(found[1]) in cpus:
            grown[found[2]] += value - first.counters.get(name, 0)
    return grown


def format_load(view: RunView, case_id: str) -> str:
    """At what load a pass was measured; of a fixed one also which share it is of the rate that the same run found."""
    params = view.run.cases[case_id]
    if params.get("load") == "closed":
        return f"closed loop of {params['outstanding']}"
    if params.get("load") != "fixed":
        return str(params.get("load", "saturate"))
    found = next(_rates_of_same(view, params), None)
    share = f", {100 * params['rate_pps'] / found[1]:.0f} % of {found[0]}" if found else ""
    return f"{params['rate_pps'] / 1e6:g} Mpps{share}"


def _rates_of_same(view: RunView, params: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Figures of the cases that differ in nothing but the pass and its load: what was searched for, then saturation."""
    wanted = _without_pass(params)
    same = [(key, other) for key, other in view.run.cases.items() if _without_pass(other) == wanted]
    for load in ("search", "saturate"):
        for case_id, other in same:
            if measures_rate(other) and other.get("load", "saturate") == load:
                for loss_ratio in loss_ratios(other):
                    if pps := case_rates(view, case_id, loss_ratio).pps:
                        yield figure_name(case_id, loss_ratio), pps


def _without_pass(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name not in OF_THE_PASS}


def _good(view: RunView, case_id: str) -> list[TrialView]:
    return [one for one in view.of_case(case_id) if one.usable]


def _flags(trials: list[TrialView]) -> list[str]:
    return sorted({flag for one in trials for flag in flag_names(one.flags)})


def _notes(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    flags = sorted({flag for row in rows for flag in row["flags"]})
    return ("no rate is taken from a pass: what looks costs time", *(f"{flag}: {MEANINGS[flag][1]}" for flag in flags))

# SPDX-License-Identifier: GPL-2.0-or-later
"""What the passes say, apart from rates: sums over CPUs and trials, events for each packet, and the load."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from made_trials import OUTSIDE, SAMPLES, make_run, make_trial

from xdprepro import report
from xdprepro.cases import Case, make_case
from xdprepro.compare import compare
from xdprepro.passes import pass_tables
from xdprepro.sample import Reading, Run, Sample, Trial, TrialKey
from xdprepro.table import Table
from xdprepro.view import RunView, view_run

RATE = make_case({"case": "xdp.redirect-map.swap-macs"})
PACKETS = 10_000_000  # in the measure phase of a made trial


def of_pass(which: str, **params: Any) -> Case:
    return make_case({"case": RATE.case, "pass": which, **params})


def make(case: Case, *, trial: int = 0) -> Trial:
    made = make_trial(case)
    return replace(made, key=TrialKey(made.key.case_id, 0, trial))


def with_edges(trial: Trial, sources: Mapping[str, Mapping[str, int]], **ready: Any) -> Trial:
    """The trial with sources that were empty at the start."""
    edges = {
        edge: (
            *readings,
            *(Reading(name, 1, 2, counters if edge == "end" else {}) for name, counters in sources.items()),
        )
        for edge, readings in trial.dut.edges.items()
    }
    return replace(trial, dut=replace(trial.dut, edges=edges, ready={**trial.dut.ready, **ready}))


def with_samples(trial: Trial, pmu: Mapping[str, int]) -> Trial:
    """The trial with counters that grow by so much in the measure phase."""

    def grow(index: int, sample: Sample) -> Sample:
        grown = {f"pmu.{name}": 1000 + value * index // (SAMPLES - 1) for name, value in pmu.items()}
        return replace(sample, counters={**sample.counters, **grown})

    samples = tuple(grow(index, sample) for index, sample in enumerate(trial.dut.samples))
    return replace(trial, dut=replace(trial.dut, samples=samples))


def view(trials: list[Trial], *cases: Case, **changes: Any) -> RunView:
    return view_run(make_run(trials, cases, **changes))


def rows(table: Table, value: str) -> dict[str, Any]:
    """A column by what the row is of."""
    return {row.get("counter") or row["event"]: row[value] for row in table.rows}


def diagnosed(case: Case, trial: int = 0, **ready: Any) -> Trial:
    errors = {"cpu0.redirect_err.ENETDOWN": 3, "cpu1.redirect_err.ENETDOWN": 4, "cpu1.devmap_xmit.sent": 90}
    polls = {"cpu0.work0": 10, "cpu0.work64": 5, "cpu1.work3": 2}
    return with_edges(make(case, trial=trial), {"xdp_errors": errors, "napi": polls}, **ready)


def test_errors_and_polls_are_summed_over_cpus_and_trials() -> None:
    case = of_pass("diagnostic")
    (table,) = pass_tables(view([diagnosed(case), diagnosed(case, 1)], case))
    assert table.name == "diagnostic"
    assert rows(table, "count") == {
        "devmap_xmit.sent": 180,
        "napi_poll.empty": 20,
        "napi_poll.packets": 2 * (5 * 64 + 2 * 3),
        "napi_poll.polls": 34,
        "redirect_err.ENETDOWN": 14,
    }
    assert rows(table, "per_packet")["redirect_err.ENETDOWN"] == pytest.approx(7 / (PACKETS + OUTSIDE))


def test_what_was_counted_of_the_whole_machine_is_said() -> None:
    case = of_pass("diagnostic")
    (ours,) = pass_tables(view([diagnosed(case, tracepoints={"only_ours": True})], case))
    (all_,) = pass_tables(view([diagnosed(case, tracepoints={"only_ours": False})], case))
    assert {row["note"] for row in ours.rows} == {""}
    assert {row["note"] for row in all_.rows} == {"counted of the whole machine, as the kernel has no BTF"}


def test_where_nothing_fired_the_pass_says_so() -> None:
    case = of_pass("diagnostic")
    (table,) = pass_tables(view([make(case)], case))
    assert [(row["counter"], row["count"], row["note"]) for row in table.rows] == [("none", 0, "")]


def test_a_pass_of_which_no_trial_is_good_says_so() -> None:
    case = of_pass("diagnostic")
    (table,) = pass_tables(view([replace(diagnosed(case), status="failed")], case))
    assert [(row["counter"], row["count"], row["note"]) for row in table.rows] == [
        ("none", None, "no trial ended well")
    ]


def test_events_are_those_of_the_cpus_that_received() -> None:
    case = of_pass("pmu", pmu_group="llc")
    grown = {"cpu0.LLC-loads": 5 * PACKETS, "cpu0.enabled_ns": 10**9, "cpu0.running_ns": 10**9}
    others = {"cpu1.LLC-loads": 7 * PACKETS, "cpu1.enabled_ns": 10**9, "cpu1.running_ns": 10**9}
    (table,) = pass_tables(view([with_samples(make(case), grown | others)], case))
    assert rows(table, "per_packet") == {"LLC-loads": pytest.approx(5.0)}
    assert rows(table, "counted_pct") == {"LLC-loads": 100.0}


def test_an_event_that_was_counted_for_half_the_time_is_taken_twice() -> None:
    case = of_pass("pmu", pmu_group="llc")
    grown = {"cpu0.LLC-loads": 5 * PACKETS, "cpu0.enabled_ns": 10**9, "cpu0.running_ns": 5 * 10**8}
    (table,) = pass_tables(view([with_samples(make(case), grown)], case))
    assert rows(table, "per_packet") == {"LLC-loads": pytest.approx(10.0)}
    assert rows(table, "counted_pct") == {"LLC-loads": pytest.approx(50.0)}


@pytest.mark.parametrize(
    ("params", "load"),
    [
        ({}, "saturate"),
        ({"load": "fixed", "rate_pps": 5_000_000}, f"5 Mpps, 50 % of {RATE.id}"),
        ({"load": "closed", "outstanding": 8}, "closed loop of 8"),
    ],
)
def test_a_pass_names_its_load(params: dict[str, Any], load: str) -> None:
    case = of_pass("diagnostic", **params)
    (table,) = pass_tables(view([make(RATE), diagnosed(case)], RATE, case))
    assert {row["load"] for row in table.rows} == {load}


def test_without_a_rate_of_the_same_run_a_fixed_load_is_no_share() -> None:
    case = of_pass("diagnostic", load="fixed", rate_pps=5_000_000)
    (table,) = pass_tables(view([diagnosed(case)], case))
    assert {row["load"] for row in table.rows} == {"5 Mpps"}


# Rates and verdicts are none of theirs


def passes_and_rate(run_id: str) -> Run:
    case = of_pass("diagnostic")
    return make_run([make(RATE), diagnosed(case)], [RATE, case], run_id=run_id)


def test_a_pass_has_no_rate() -> None:
    seen = view_run(passes_and_rate("a"))
    assert [one.rate is None for one in seen.trials] == [False, True]
    assert [row["case_id"] for row in report.case_table(seen).rows] == [RATE.id]


def test_a_pass_gets_no_verdict() -> None:
    comparison = compare(view_run(passes_and_rate("a")), view_run(passes_and_rate("b")))
    assert [case.case_id for case in comparison.cases] == [RATE.id]
    assert comparison.passes == (of_pass("diagnostic").id,)
    notes = report.compare_table(comparison).notes
    assert f"passes that measure no rate are not compared: {of_pass('diagnostic').id}" in notes


def test_a_run_without_passes_has_no_tables_of_them() -> None:
    assert pass_tables(view([make(RATE)], RATE)) == []

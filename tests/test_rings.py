# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of rings: entries a second, and how full the rings were."""

from dataclasses import replace

from made_trials import make_case_run, make_run, make_trial

from xdprepro.cases import Case
from xdprepro.rings import ring_table, ring_tables
from xdprepro.sample import Trial
from xdprepro.table import as_text
from xdprepro.validity import flag_names
from xdprepro.view import view_run

RING = Case("ring.head-tail", ring_faster="consumer")


def with_occupancy(trial: Trial, first: list[int], last: list[int]) -> Trial:
    """The trial with these looks at the ring in the first and all in later samples."""
    samples = tuple(
        replace(
            sample,
            counters={
                **sample.counters,
                **{f"ring.occupancy_{i}": n for i, n in enumerate(last if number else first)},
            },
        )
        for number, sample in enumerate(trial.dut.samples)
    )
    return replace(trial, dut=replace(trial.dut, samples=samples))


def test_occupancy_is_that_of_the_measure_phase() -> None:
    trials = [
        with_occupancy(make_trial(RING, boot=boot, ns=10.0), [100, 0, 0, 0, 0, 0, 0, 0], [101, 3, 0, 0, 0, 0, 0, 4])
        for boot in range(2)
    ]
    table = ring_table(view_run(make_run(trials, [RING])), [RING.id])
    (row,) = table.rows
    assert row["occupancy_pct"] == [12.5, 37.5, 0, 0, 0, 0, 0, 50]
    assert row["slower"] == "producer"
    assert round(row["ops"]) == 100_000_000
    assert as_text(table)[0][:2] == [RING.id, "100.000"]
    assert as_text(table)[0][3:] == ["12 38 0 0 0 0 0 50", "producer"]


def test_ring_without_a_usable_trial_has_no_figures() -> None:
    failed = [make_trial(RING, boot=0, status="failed")]
    (row,) = ring_table(view_run(make_run(failed, [RING])), [RING.id]).rows
    assert (row["ops"], row["occupancy_pct"]) == (None, None)


def test_run_without_rings_has_no_such_table() -> None:
    assert ring_tables(view_run(make_case_run(Case("xdp.drop.no-touch"), (100.0, 100.1)))) == []


def with_run_ns(trial: Trial, *, producer_share: float) -> Trial:
    """The trial with a consumer that always ran, and a producer that had a share of its CPU."""
    samples = tuple(
        replace(
            sample,
            counters={
                **sample.counters,
                "ring.producer_run_ns": round(sample.t0_ns * producer_share),
                "ring.consumer_run_ns": sample.t0_ns,
            },
        )
        for sample in trial.dut.samples
    )
    return replace(trial, dut=replace(trial.dut, samples=samples))


def test_thread_that_was_without_its_cpu_is_flagged() -> None:
    for share, flags in ((1.0, ()), (0.99, ()), (0.9, ("cpu_shared",))):
        trial = with_run_ns(make_trial(RING, boot=0), producer_share=share)
        (one,) = view_run(make_run([trial], [RING])).trials
        assert flag_names(one.flags) == flags

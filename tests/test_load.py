# SPDX-License-Identifier: GPL-2.0-or-later
"""Loads of a run: calibrations, limits, rates that were kept or not, and what searches found; made up and measured."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from conftest import ROOT
from made_trials import OUTSIDE, make_fingerprint, make_run, make_trial

from xdprepro import archive, validity
from xdprepro.cases import Case
from xdprepro.compare import compare
from xdprepro.errors import INTERRUPTED
from xdprepro.load import find_limits, kept_share, line_pps, load_key, make_calibrations, read_step
from xdprepro.needs import find_guest_refusal
from xdprepro.report import find_trial_reasons
from xdprepro.sample import Run, Sample, Trial
from xdprepro.search import find_bounds
from xdprepro.session import arrange
from xdprepro.suite import parse_suite
from xdprepro.view import RunView, case_rates, figure_name, find_searches, view_run

DROP = Case("xdp.drop.no-touch", generator="live-frames")
TX = Case("xdp.tx.swap-macs", generator="live-frames")
FIXED = Case("xdp.tx.swap-macs", generator="live-frames", load="fixed", rate_pps=1_000_000)
SEARCH = Case("xdp.tx.swap-macs", generator="live-frames", load="search")


def with_load(trial: Trial, *, rate_pps: int = 0, kept: float = 1.0) -> Trial:
    """The trial with a tester that saw its generator send all along, `kept` of what was due from the middle on."""
    total = trial.tester.delta()["generator.cpu1.packets"]
    samples = []
    for index in range(21):
        counters = {"generator.cpu1.packets": 1 + total * index // 20}
        if rate_pps:
            counters["generator.cpu1.due"] = round(counters["generator.cpu1.packets"] / kept)
        samples.append(Sample("measure", 10**9 + index * 50_000_000, 10**9 + index * 50_000_000, counters))
    ready = {"generator": {"generator": "live-frames", "rate_pps": rate_pps}}
    return replace(trial, tester=replace(trial.tester, samples=tuple(samples), ready=ready))


def flags_of(trial: Trial, run: Run) -> set[str]:
    return set(validity.flag_names(validity.trial_flags(trial, run)))


@pytest.mark.parametrize(("ns", "bound"), [(101.0, True), (104.0, False)])
def test_a_rate_near_what_the_generator_had_accepted_is_flagged(ns: float, bound: bool) -> None:
    trials = [with_load(make_trial(DROP, ns=100.0)), with_load(make_trial(TX, ns=ns))]
    run = make_run(trials, [DROP, TX])
    assert ("generator_bound" in flags_of(trials[1], run)) == bound
    assert "generator_bound" in flags_of(trials[0], run)


def test_a_generator_that_was_refused_did_less_than_it_sent() -> None:
    refused = make_trial(DROP, tester_end={"generator.cpu1.packets": 10**6, "netdev.tx_dropped": 10**6})
    (ceiling,) = find_limits(make_run([with_load(refused)], [DROP])).ceilings.values()
    (unrefused,) = find_limits(make_run([with_load(make_trial(DROP))], [DROP])).ceilings.values()
    assert ceiling == pytest.approx(unrefused, rel=1e-3)


def test_without_a_calibration_no_rate_is_near_it() -> None:
    trial = with_load(make_trial(TX))
    assert "generator_bound" not in flags_of(trial, make_run([trial], [TX]))


# 10 Mpps of 60 bytes are 84 bytes each on the wire: 6.72 Gbit/s.
@pytest.mark.parametrize(("speed_mbps", "bound"), [(6_900, True), (7_000, False), (100_000, False)])
def test_a_rate_near_that_of_the_wire_is_flagged(speed_mbps: int, bound: bool) -> None:
    trial = with_load(make_trial(DROP, ns=100.0))
    wire = make_fingerprint(dut__port__speed_mbps=100_000, tester__port__speed_mbps=speed_mbps)
    run = make_run([trial], [DROP], fingerprint=wire)
    assert ("line_bound" in flags_of(trial, run)) == bound


@pytest.mark.parametrize(("speed_mbps", "bound"), [(6_900, True), (7_000, False)])
def test_what_a_dut_sends_itself_is_at_the_limit_of_the_wire_where_it_arrives(speed_mbps: int, bound: bool) -> None:
    sends = Case("xsk.txonly")
    trial = make_trial(sends, ns=100.0)
    arrived = trial.tester.delta()["xdp_prog.cpu0.rxq0.XDP_DROP.packets"] - OUTSIDE
    samples = tuple(
        Sample("measure", at_ns, at_ns, {"xdp_prog.cpu0.rxq0.XDP_DROP.packets": count})
        for at_ns, count in ((10**9, 7), (2 * 10**9, 7 + arrived))
    )
    trial = replace(trial, tester=replace(trial.tester, samples=samples))
    wire = make_fingerprint(dut__port__speed_mbps=speed_mbps, tester__port__speed_mbps=100_000)
    run = make_run([trial], [sends], fingerprint=wire)
    assert ("line_bound" in flags_of(trial, run)) == bound


def test_ports_that_are_virtual_or_emulated_have_no_line() -> None:
    assert line_pps(make_run([], []), 60) is None
    wire = make_fingerprint(dut__port__speed_mbps=1000, tester__port__speed_mbps=1000)
    assert line_pps(make_run([], [], fingerprint=wire), 60) == pytest.approx(1_488_095, abs=1)
    assert line_pps(make_run([], [], fingerprint=wire, lab_kind="vm"), 60) is None


@pytest.mark.parametrize(("kept", "off"), [(1.0, False), (0.991, False), (0.98, True)])
def test_a_rate_that_was_not_kept_is_flagged(kept: float, off: bool) -> None:
    trial = with_load(make_trial(FIXED, ns=1000.0), rate_pps=1_000_000, kept=kept)
    assert kept_share(trial) == pytest.approx(kept, abs=1e-3)
    view = view_run(make_run([trial], [FIXED]))
    assert ("pacing_off" in validity.flag_names(view.trials[0].flags)) == off
    notes = list(find_trial_reasons(view, view.trials[0]))
    assert notes == (["the generator kept 98.0 % of 1000000 packets/s"] if off else [])


def late(trial: Trial, late_ns: int) -> Trial:
    """The trial with a generator that was held up for so long."""
    edges = {
        name: tuple(
            replace(one, counters={**one.counters, "cpu1.late_ns": late_ns}) if one.source == "generator" else one
            for one in readings
        )
        for name, readings in trial.tester.edges.items()
    }
    return replace(trial, tester=replace(trial.tester, edges=edges))


# Of a million packets a second, one in a thousand is lost: 1012.
@pytest.mark.parametrize(
    ("late_ns", "ring", "burst"),
    [(2_000_000, 1024, True), (2_000_000, 4096, False), (900_000, 512, False), (0, 512, False)],
)
def test_a_loss_that_a_burst_may_explain_is_flagged(late_ns: int, ring: int, burst: bool) -> None:
    trial = make_trial(FIXED, ns=1000.0, returned_share=0.999)
    trial = late(with_load(trial, rate_pps=1_000_000), late_ns)
    run = make_run([trial], [FIXED], fingerprint=make_fingerprint(dut__port__rings={"rx": ring}))
    assert ("lost_in_burst" in flags_of(trial, run)) == burst


def test_a_burst_without_a_loss_is_none() -> None:
    trial = late(with_load(make_trial(FIXED, ns=1000.0), rate_pps=1_000_000), 10**9)
    assert "lost_in_burst" not in flags_of(trial, make_run([trial], [FIXED]))


@pytest.mark.parametrize("timeouts", [0, 1])
def test_a_closed_loop_that_stalled_is_flagged(timeouts: int) -> None:
    closed = Case("xdp.tx.swap-macs", generator="af-packet", load="closed", outstanding=8)
    trial = make_trial(closed, tester_end={"generator.cpu1.timeouts": timeouts})
    assert ("loop_stalled" in flags_of(trial, make_run([trial], [closed]))) == bool(timeouts)


def test_calibrations_are_added_once_for_each_load_that_needs_one() -> None:
    short, long = replace(TX, frame_len=60), replace(TX, frame_len=1000)
    skb = Case("xdp.pass.no-touch", attach_mode="skb")
    made = make_calibrations([short, SEARCH, long, FIXED, skb, Case("ring.head-tail"), replace(TX, pass_="diagnostic")])
    assert [(case.case, case.attach_mode, case.frame_len) for case in made] == [
        ("xdp.drop.no-touch", "native", 60),
        ("xdp.drop.no-touch", "native", 1000),
        ("xdp.drop.no-touch", "skb", 60),
    ]
    assert [load_key(case.params()) for case in made[:2]] == [load_key(case.params()) for case in (short, long)]
    assert make_calibrations([DROP, TX]) == ()


def test_a_search_stands_once_in_a_restart_and_after_its_calibration() -> None:
    cases = {case.id: case for case in (SEARCH, TX, DROP)}
    suite = replace(parse_suite("[[case]]\ncase = 'xdp.drop.no-touch'", "s"), restarts=4, trials=3)
    plan = arrange(suite.plan(cases), cases)
    for boot in range(4):
        ids = [slot.case_id for slot in plan if slot.boot == boot]
        assert (ids.count(SEARCH.id), ids.count(TX.id), ids.count(DROP.id)) == (1, 3, 3)
        assert ids.index(DROP.id) < ids.index(SEARCH.id)


def searched(*loads: tuple[int, float], boot: int = 0, capacity_pps: float = 1e6) -> list[Trial]:
    """The steps of a search: loads, and what the generator kept of each."""
    return [
        with_load(
            make_trial(SEARCH, boot=boot, trial=step, ns=1e9 / pps, returned_share=min(1.0, capacity_pps / pps)),
            rate_pps=pps,
            kept=kept,
        )
        for step, (pps, kept) in enumerate(loads)
    ]


def test_what_a_search_found_follows_from_its_steps() -> None:
    trials = searched((2_000_000, 1.0), (1_000_000, 1.0), (1_004_000, 1.0), (5_000_000, 0.5))
    view = view_run(make_run(trials, [SEARCH]))
    (found,) = find_searches(view, SEARCH.id, 0.0)
    assert (found.bounds.lower_pps, found.bounds.upper_pps, found.steps, found.usable) == (
        1_000_000,
        1_004_000,
        4,
        True,
    )
    assert found.pps == pytest.approx(1e6, rel=1e-3)
    (looser,) = find_searches(view, SEARCH.id, 0.005)
    assert looser.bounds.lower_pps == 1_004_000
    assert case_rates(view, SEARCH.id, 0.0).boots == (0,)


def test_a_search_that_ended_too_far_off_is_flagged_and_no_figure() -> None:
    trials = searched((2_000_000, 1.0), (1_000_000, 1.0), (1_100_000, 1.0))
    view = view_run(make_run(trials, [SEARCH]))
    assert ["search_quantised" in validity.flag_names(one.flags) for one in view.trials] == [False, True, False]
    assert case_rates(view, SEARCH.id, 0.0).boots == ()


def test_a_search_with_a_step_that_cannot_be_trusted_is_no_figure() -> None:
    trials = searched((2_000_000, 1.0), (1_000_000, 1.0), (1_004_000, 1.0))
    trials[0] = replace(trials[0], status="failed", reason="dut0: bind: busy")
    view = view_run(make_run(trials, [SEARCH]))
    (found,) = find_searches(view, SEARCH.id, 0.0)
    assert (found.usable, len(found.broken)) == (False, 1)
    assert case_rates(view, SEARCH.id, 0.0).excluded


def test_a_search_that_a_burst_ended_is_no_figure() -> None:
    trials = searched((2_000_000, 1.0), (1_000_000, 1.0), (1_004_000, 1.0))
    for index, usable in ((0, True), (2, False)):
        held_up = [late(one, 10**8) if k == index else one for k, one in enumerate(trials)]
        (found,) = find_searches(view_run(make_run(held_up, [SEARCH])), SEARCH.id, 0.0)
        assert found.usable == usable


def test_a_search_without_an_upper_bound_is_a_figure_at_the_highest_load_only() -> None:
    (whole,) = find_searches(view_run(make_run(searched((900_000, 1.0)), [SEARCH])), SEARCH.id, 0.0)
    assert whole.usable
    trials = searched((2_000_000, 1.0), (900_000, 1.0))
    trials[0] = replace(trials[0], status="interrupted", reason="interrupted by the user")
    view = view_run(make_run(trials, [SEARCH]))
    assert "search_quantised" in validity.flag_names(view.trials[1].flags)


def found_run(run_id: str, capacities: tuple[float, ...]) -> RunView:
    trials = [
        one
        for boot, pps in enumerate(capacities)
        for one in searched((round(pps), 1.0), (round(1.004 * pps), 1.0), boot=boot, capacity_pps=pps)
    ]
    return view_run(make_run(trials, [SEARCH], run_id=run_id))


def test_searches_are_compared_by_loss_ratio() -> None:
    a, b = found_run("a", (1.0e6, 1.001e6, 1.002e6)), found_run("b", (0.9e6, 0.901e6, 0.902e6))
    cases = compare(a, b).timed
    assert [case.case_id for case in cases] == [figure_name(SEARCH.id, ratio) for ratio in SEARCH.loss_ratios]
    assert cases[0].case_id.endswith("@ndr")
    assert cases[1].case_id.endswith("@pdr-0.1%")
    assert cases[0].verdict == "REGRESSED"


def test_a_fixed_rate_is_no_cost() -> None:
    runs = [make_run([make_trial(FIXED, boot=boot) for boot in (0, 1)], [FIXED], run_id=name) for name in "ab"]
    (case,) = compare(*map(view_run, runs)).timed
    assert (case.verdict, case.reason) == ("EXCLUDED", "the load sets this rate, and not the DUT")


@pytest.mark.parametrize(("lab_kind", "verdict"), [("veth", "EQUIVALENT"), ("two-host", "INCONCLUSIVE")])
def test_equal_rates_at_the_limit_of_a_generator_apart_tell_nothing(lab_kind: str, verdict: str) -> None:
    fingerprint = make_fingerprint(lab__kind=lab_kind)
    runs = [
        make_run(
            [with_load(make_trial(DROP, boot=boot)) for boot in range(3)],
            [DROP],
            run_id=name,
            lab_kind=lab_kind,
            fingerprint=fingerprint,
        )
        for name in "ab"
    ]
    (case,) = compare(*map(view_run, runs)).timed
    assert case.verdict == verdict


@pytest.mark.parametrize("load", ["fixed", "closed", "search"])
def test_a_guest_has_no_load_that_needs_a_clock(load: str) -> None:
    assert find_guest_refusal(replace(TX, load=load)) == f"load = {load} needs a clock, which a guest has not"
    assert find_guest_refusal(TX) == find_guest_refusal(Case("xsk.txonly")) == ""


# Measured, on veth: counts and flags, no rates

SUITE = """
restarts = 1
[defaults]
settle_s = 0.05
measure_s = 0.15
interval_s = 0.01
[[case]]
case = "xdp.drop.csum"
iterations = 50
load = "search"
loss_ratios = [[0.0, 0.01]]
width = 0.1
[[case]]
case = "xdp.drop.no-touch"
load = "fixed"
rate_pps = [1000, 1000000000]
[[case]]
case = "xdp.tx.swap-macs"
load = "closed"
outstanding = 16
"""


SLOW_SEARCH = """
restarts = 1
[[case]]
case = "xdp.drop.csum"
iterations = 50
load = "search"
width = 0.0001
settle_s = 0.1
measure_s = 0.2
"""


@dataclass(frozen=True)
class LoadLab:
    """A lab of this test process, up."""

    path: Path

    def run_args(self, suite: str, name: str) -> list[str]:
        """The command that runs a suite, into an archive of that name."""
        path = self.path.parent / f"{name}.toml"
        path.write_text(suite)
        argv = [sys.executable, "-m", "xdprepro", "run", str(path), "--lab", str(self.path)]
        return [*argv, "--archive", str(self.path.parent / name)]

    def load_runs(self, name: str) -> list[Run]:
        """All sealed runs of an archive."""
        return [archive.load_run(path) for path in (self.path.parent / name).glob("*.h5")]


def xdprepro(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, root_user: None, agent: Path) -> Iterator[LoadLab]:
    path = tmp_path_factory.mktemp("load") / f"l{os.getpid()}"
    shutil.copytree(ROOT / "inventory/veth", path)
    xdprepro(sys.executable, "-m", "xdprepro", "up", str(path))
    try:
        yield LoadLab(path)
    finally:
        xdprepro(sys.executable, "-m", "xdprepro", "down", str(path))


@pytest.fixture(scope="module")
def measured(lab: LoadLab) -> RunView:
    xdprepro(*lab.run_args(SUITE, "loads"))
    (run,) = lab.load_runs("loads")
    return view_run(run)


def flags_in(view: RunView, case: str, **params: object) -> list[set[str]]:
    """The flags of each trial of a case with these parameters."""
    (case_id,) = (
        case_id
        for case_id, known in view.run.cases.items()
        if known["case"] == case and all(known[key] == value for key, value in params.items())
    )
    return [set(validity.flag_names(one.flags)) for one in view.of_case(case_id)]


@pytest.mark.netns
def test_every_step_is_archived_and_leads_to_what_was_found(measured: RunView) -> None:
    (case_id,) = (case_id for case_id, params in measured.run.cases.items() if params["load"] == "search")
    params, trials = measured.run.cases[case_id], [one.trial for one in measured.of_case(case_id)]
    assert [trial.key.trial for trial in trials] == list(range(len(trials)))
    assert all(after.slot == before.slot + 1 for before, after in itertools.pairwise(trials))
    steps = [read_step(trial, params) for trial in trials]
    bounds = find_bounds(steps, 0.0)
    assert bounds.lower_pps is not None
    assert bounds.upper_pps is not None
    assert bounds.width is not None
    assert 0.005 < bounds.width <= 0.101
    (found,) = find_searches(measured, case_id, 0.0)
    assert found.bounds == bounds
    quantised = {
        trial.load_pps
        for trial, flags in zip(steps, flags_in(measured, "xdp.drop.csum"), strict=True)
        if "search_quantised" in flags
    }
    assert bounds.lower_pps in quantised
    assert not found.usable


@pytest.mark.netns
def test_the_generator_is_calibrated_in_the_same_run_and_flags_what_is_bound_by_it(measured: RunView) -> None:
    ((flags,),) = [flags_in(measured, "xdp.drop.no-touch", load="saturate")]
    assert "generator_bound" in flags
    assert find_limits(measured.run).ceilings


@pytest.mark.netns
def test_a_rate_above_what_the_generator_can_do_is_flagged(measured: RunView) -> None:
    ((slow,), (fast,)) = (flags_in(measured, "xdp.drop.no-touch", rate_pps=pps) for pps in (1000, 1_000_000_000))
    assert "pacing_off" not in slow
    assert "pacing_off" in fast


@pytest.mark.netns
def test_a_closed_loop_returns_all_that_it_sent(measured: RunView) -> None:
    (one,) = (one for one in measured.trials if measured.run.cases[one.trial.key.case_id]["load"] == "closed")
    assert not one.closure.open
    ready = one.trial.tester.ready["generator"]
    assert (ready["closed_loop"], ready["generator"]) == (16, "af-packet")


def wait_for_trials(folder: Path, count: int) -> None:
    """Until so many trials of the run that is going on have ended."""
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        ended = sum(path.read_bytes().count(b'"rec":"trial_end"') for path in folder.glob("journal/*.journal"))
        if ended >= count:
            return
        time.sleep(0.05)
    raise AssertionError(f"no {count} trials ended")


@pytest.mark.netns
def test_a_search_that_is_interrupted_keeps_its_steps(lab: LoadLab) -> None:
    with subprocess.Popen(
        lab.run_args(SLOW_SEARCH, "cut"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as cut:
        wait_for_trials(lab.path.parent / "cut", 2)  # the calibration and a step
        cut.send_signal(signal.SIGINT)
        assert cut.wait(60) == INTERRUPTED
    (run,) = lab.load_runs("cut")
    steps = [trial for trial in run.trials if run.cases[trial.key.case_id]["load"] == "search"]
    assert run.status == "partial"
    assert "ok" in {trial.status for trial in steps}

# SPDX-License-Identifier: GPL-2.0-or-later
"""The load of a trial: whether the generator kept it, and whether the generator or the wire was the limit."""

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xdprepro.cases import Case, make_case, role_of
from xdprepro.closure import Closure, close_trial
from xdprepro.sample import SIDES, Run, Trial, TrialKey
from xdprepro.search import PACING, Step, find_bounds
from xdprepro.stats import action_pattern, is_counted, kind_of, measured, rate_pattern, returned_share, sum_counters

# The cheapest end that packets can have: what a generator can do is measured against it.
CALIBRATION = "xdp.drop.no-touch"
# Of this share of what the generator can do, or of what the wire can carry, the DUT may not have been the limit.
GENERATOR_BOUND = 0.98
LINE_BOUND = 0.97
# Preamble, start of frame, checksum and the gap between frames, on a wire of Ethernet.
WIRE_BYTES = 24
SHORTEST_FRAME = 60
# Packets that a receive ring holds where the port does not say how many: as veth's.
USUAL_RING = 256
# Loads for which the generator gives all it has.
UNBOUNDED = ("saturate", "search")

SENT = r"generator\.cpu\d+\.packets"
DUE = r"generator\.cpu\d+\.due"
LATE = r"generator\.cpu\d+\.late_ns"
TIMEOUTS = r"generator\.cpu\d+\.timeouts"

# What a ceiling depends on.
LoadKey = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """What each generator of a run had accepted when it was alone, in packets a second (the median of its trials), and
    the steps of searches that left their figure too uncertain."""

    ceilings: Mapping[LoadKey, float]
    quantised: frozenset[TrialKey]


def load_key(params: Mapping[str, Any]) -> LoadKey:
    """What makes two loads the same; where a case has no program, its calibration has one in skb mode."""
    wanted = {name: params.get(name) for name in ("frags", "frame_len", "flows", "generator", "generators")}
    return (params.get("attach_mode") or "skb", *wanted.values(), params.get("generator_batch"))


def has_load(params: Mapping[str, Any]) -> bool:
    """Whether a generator sends what the case receives."""
    return "load" in kind_of(params).groups


def is_saturated(params: Mapping[str, Any]) -> bool:
    """Whether the rate is that of the DUT: nothing else held the load back but the generator's own speed."""
    return params.get("load", "saturate") in ("saturate", "")


def is_calibration(params: Mapping[str, Any]) -> bool:
    """Whether a case tells what its generator can do."""
    plain = params.get("access") != "load-bytes" and is_saturated(params)
    return params["case"] == CALIBRATION and plain and needs_calibration(params)


def needs_calibration(params: Mapping[str, Any]) -> bool:
    """Whether the figure of a case may be that of its generator."""
    plain = params.get("pass", "rate") == "rate" and not is_counted(params)
    return has_load(params) and plain and params.get("load", "saturate") in UNBOUNDED


def make_calibrations(cases: Iterable[Case]) -> tuple[Case, ...]:
    """The cases that calibrate the generators of these cases, those that are among them left out."""
    cases = tuple(cases)
    have = {load_key(case.params()) for case in cases if is_calibration(case.params())}
    made: dict[LoadKey, Case] = {}
    for case in cases:
        key = load_key(case.params())
        if needs_calibration(case.params()) and key not in have:
            made.setdefault(key, _calibration_of(case))
    return tuple(made.values())


def _calibration_of(case: Case) -> Case:
    names = ("frags", "frame_len", "flows", "generator", "generators", "generator_batch", "settle_s", "measure_s")
    same = {name: case.get(name) for name in (*names, "interval_s")}
    return make_case({"case": CALIBRATION, "attach_mode": case.attach_mode or "skb", **same})


def find_limits(run: Run) -> Limits:
    """What the flags of a run's trials take from its other trials."""
    rates: dict[LoadKey, list[float]] = {}
    for trial in run.trials:
        params = run.cases[trial.key.case_id]
        if is_calibration(params) and (pps := accepted_pps(trial, close_trial(trial, run))):
            rates.setdefault(load_key(params), []).append(pps)
    ceilings = {key: statistics.median(found) for key, found in rates.items()}
    searched = [case_id for case_id, params in run.cases.items() if params.get("load") == "search"]
    return Limits(ceilings, frozenset(key for case_id in searched for key in _find_quantised(run, case_id)))


def _find_quantised(run: Run, case_id: str) -> Iterator[TrialKey]:
    """The steps that a search of this case took its figure from, although the next load was too far away."""
    params = run.cases[case_id]
    for boot in {trial.key.boot for trial in run.trials if trial.key.case_id == case_id}:
        trials = sorted((trial for trial in run.trials if trial.key[:2] == (case_id, boot)), key=lambda one: one.key)
        steps = {trial.key: read_step(trial, params) for trial in trials if trial.status == "ok"}
        found = (find_bounds(steps.values(), ratio) for ratio in params["loss_ratios"])
        # A search begins with its highest load.
        loads = {bounds.lower_pps for bounds in found if bounds.is_quantised(asked_pps(trials[0]))}
        yield from (key for key, step in steps.items() if step.load_pps in loads)


def accepted_pps(trial: Trial, closure: Closure) -> float | None:
    """What the tester's port took from the generator, in packets a second of the generator's samples; None without."""
    samples = [one for one in measured(trial.tester.samples) if sum_counters(one.counters, SENT)]
    if trial.status != "ok" or len(samples) < 2 or samples[-1].t1_ns <= samples[0].t1_ns or closure.generated <= 0:
        return None
    first, last = (sum_counters(one.counters, SENT) for one in (samples[0], samples[-1]))
    sent_pps = (last - first) * 1e9 / (samples[-1].t1_ns - samples[0].t1_ns)
    return sent_pps * closure.accepted / closure.generated


def arrived_pps(trial: Trial) -> float:
    """What the DUT's own sender brought to the tester, in packets a second of the tester's samples; 0 without two."""
    samples = measured(trial.tester.samples)
    if trial.status != "ok" or len(samples) < 2 or samples[-1].t1_ns <= samples[0].t1_ns:
        return 0.0
    first, last = (sum_counters(one.counters, action_pattern(r"\w+")) for one in (samples[0], samples[-1]))
    return (last - first) * 1e9 / (samples[-1].t1_ns - samples[0].t1_ns)


def line_pps(run: Run, frame_len: int) -> float | None:
    """What the slower of the two wires carries of such frames; None for virtual and emulated ports, which have none."""
    if run.lab_kind == "vm" or "guest" in run.fingerprint:
        return None
    speeds = [run.fingerprint.get(side, {}).get("port", {}).get("speed_mbps") for side in SIDES]
    if not all(speeds):
        return None
    return float(min(speeds)) * 1e6 / (8 * (max(frame_len, SHORTEST_FRAME) + WIRE_BYTES))


def read_step(trial: Trial, params: Mapping[str, Any]) -> Step:
    """A trial at a rate as a step of a search; packets count from edge to edge, when nothing moves."""
    handled = sum_counters(trial.dut.delta(), rate_pattern(params)) * returned_share(trial, params)
    return Step(asked_pps(trial), sum_counters(trial.tester.delta(), SENT), round(handled), kept_share(trial))


def asked_pps(trial: Trial) -> int:
    """The rate that the generator was told to keep; 0: none."""
    return int(trial.tester.ready.get("generator", {}).get("rate_pps", 0))


def kept_share(trial: Trial) -> float:
    """How much of what was due the generator had sent when it was at its best in the second half of the measure phase.

    A generator that is too slow falls further and further behind. One that was held up for a moment has caught up at
    some time, but perhaps not when it is told to stop.
    """
    samples = measured(trial.tester.samples)
    counted = [(sum_counters(one.counters, SENT), sum_counters(one.counters, DUE)) for one in samples]
    return max((min(1.0, sent / due) for sent, due in counted[len(counted) // 2 :] if due), default=0.0)


def lost_in_burst(trial: Trial, run: Run) -> bool:
    """Whether what was lost may be the end of a burst: a generator that was held up sends what is due all at once.

    More than the DUT's ring holds is lost at any rate; more than the burst was lost because of the rate.
    """
    step = read_step(trial, run.cases[trial.key.case_id])
    late_ns = max((ns for name, ns in trial.tester.edge("end").items() if re.fullmatch(LATE, name)), default=0)
    burst = late_ns * step.load_pps / 1e9
    ring = run.fingerprint.get("dut", {}).get("port", {}).get("rings", {}).get("rx") or USUAL_RING
    return burst > ring and 0 < step.sent - step.handled <= burst


def load_flags(trial: Trial, run: Run, closure: Closure, limits: Limits) -> dict[str, bool]:
    """Which limits the figure of a trial is at, and whether the load was kept.

    What reached its end, or of a DUT that transmits what arrived, is told by the tester's clock, as the ceilings are.
    """
    params = run.cases[trial.key.case_id]
    accepted = accepted_pps(trial, closure) if has_load(params) else None
    reached = accepted * read_step(trial, params).handled / closure.accepted if accepted else 0.0
    ceiling = limits.ceilings.get(load_key(params)) if needs_calibration(params) else None
    line = line_pps(run, params.get("frame_len", 0))
    on_wire = arrived_pps(trial) if role_of(params) == "transmit" else reached
    return {
        "generator_bound": ceiling is not None and reached >= GENERATOR_BOUND * ceiling,
        "line_bound": line is not None and on_wire >= LINE_BOUND * line,
        "pacing_off": trial.status == "ok" and asked_pps(trial) > 0 and kept_share(trial) < 1 - PACING,
        "lost_in_burst": trial.status == "ok" and lost_in_burst(trial, run),
        "search_quantised": trial.key in limits.quantised,
        "loop_stalled": sum_counters(trial.tester.delta(), TIMEOUTS) > 0,
    }

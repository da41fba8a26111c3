# SPDX-License-Identifier: GPL-2.0-or-later
"""The group of one case: its trials laid out as arrays."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdprepro.archive.hdf5 import Array, Group, clip, write_json, write_var
from xdprepro.archive.schema import (
    ABSENT,
    CASE,
    DRAIN,
    EDGES_GROUP,
    NONE,
    OTHER,
    TESTER,
    WARMUP,
    XSK_APP,
    Var,
)
from xdprepro.errors import STORAGE, XdpreproError
from xdprepro.sample import EDGES, PHASES, SIDES, TRIAL_STATUSES, Reading, Sample, Stream, Trial, TrialKey

# One number, one spelling: a name that would not come back the same goes to the group `other`.
_NUMBER = r"(0|[1-9][0-9]{0,8})"
XDP_COUNTER = re.compile(rf"xdp_prog\.cpu{_NUMBER}\.rxq{_NUMBER}\.(\w+\.(?:packets|bytes))")
XSK_COUNTER = re.compile(rf"xsk_app\.q{_NUMBER}\.(\w+)")
REASON_BYTES = 256
PHASE_BITS = {"settle": WARMUP, "measure": 0, "drain": DRAIN}

Names = Mapping[str, tuple[str, ...]]  # a counter's name -> its place on each axis


@dataclass(frozen=True, slots=True)
class _Case:
    """Trials, placed on boot x trial."""

    trials: Sequence[Trial]
    boots: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.boots, max(trial.key.trial for trial in self.trials) + 1

    def per_trial(self, value: Callable[[Trial], Any], fill: Any, dtype: Any) -> Array:
        array = np.full(self.shape, fill, dtype)
        for trial in self.trials:
            array[trial.key.boot, trial.key.trial] = value(trial)
        return array


def write_case(
    group: Group, trials: Sequence[Trial], boots: int, flags: Mapping[TrialKey, int], flag_names: Sequence[str]
) -> None:
    """All that the trials of a case hold."""
    case = _Case(trials, boots)
    write_json(group, "agent_reports", {f"{t.key.boot}/{t.key.trial}": _report(t) for t in trials})
    data = {**_per_trial(case, flags), **_stamps(case, "dut", "sample")}
    names = _names(case, "dut")
    xdp = {name: found.groups() for name in names if (found := XDP_COUNTER.fullmatch(name))}
    xsk = {name: found.groups() for name in names if (found := XSK_COUNTER.fullmatch(name))}
    other = {name: (name,) for name in names if name not in xdp and name not in xsk}
    _write(group, CASE, data | _grid(case, "dut", xdp, ("cpu", "queue", "counter")), flag_names=flag_names)
    _write_group(group, "xsk_app", XSK_APP, _grid(case, "dut", xsk, ("xsk_queue", "xsk_counter")))
    _write_group(group, "other", OTHER, _grid(case, "dut", other, ("other_counter",)))
    flat = {name: (name,) for name in _names(case, "tester")}
    tester = {**_stamps(case, "tester", "tester_sample"), **_grid(case, "tester", flat, ("tester_counter",))}
    _write_group(group, "tester", TESTER, tester)
    _write_group(group, "edges", EDGES_GROUP, _edges(case))


def _write_group(parent: Group, name: str, table: Mapping[str, Var], data: Mapping[str, Any]) -> None:
    if data:
        _write(parent.create_group(name), table, data)


def _write(group: Group, table: Mapping[str, Var], data: Mapping[str, Any], *, flag_names: Sequence[str] = ()) -> None:
    """The variables for which there are data, in the table's order: scales come first."""
    for name, var in table.items():
        if name in data:
            write_var(group, name, var, data[name], masks=tuple(flag_names) if name == "trial_flags" else ())


def _report(trial: Trial) -> dict[str, Any]:
    """What the agents said of themselves, and the whole reason."""
    return {"reason": trial.reason} | {side: _side_report(stream(trial, side)) for side in SIDES}


def _side_report(said: Stream) -> dict[str, Any]:
    return {"ready": said.ready, "done": said.done, "absent": said.absent, "error": said.error}


def stream(trial: Trial, side: str) -> Stream:
    """What this side's agent said."""
    return trial.dut if side == "dut" else trial.tester


def _per_trial(case: _Case, flags: Mapping[TrialKey, int]) -> dict[str, Any]:
    boots, trials = case.shape
    return {
        "boot": range(boots),
        "trial": range(trials),
        "trial_status": case.per_trial(lambda t: 1 + TRIAL_STATUSES.index(t.status), 0, "u1"),
        "trial_reason": case.per_trial(lambda t: clip(t.reason, REASON_BYTES), "", object),
        "trial_flags": case.per_trial(lambda t: flags.get(t.key, 0), 0, "u4"),
        "slot": case.per_trial(lambda t: t.slot, -1, "i4"),
        "t_epoch_ns": case.per_trial(lambda t: t.t_utc_ns, 0, "i8"),
    }


def _iter_samples(case: _Case, side: str) -> Iterable[tuple[tuple[int, int, int], Sample]]:
    """Every sample with its place on boot, trial, sample."""
    for trial in case.trials:
        for index, sample in enumerate(stream(trial, side).samples):
            yield (trial.key.boot, trial.key.trial, index), sample


def _sample_shape(case: _Case, side: str) -> tuple[int, int, int]:
    return (*case.shape, max(len(stream(trial, side).samples) for trial in case.trials))


def _names(case: _Case, side: str) -> list[str]:
    return sorted({name for _, sample in _iter_samples(case, side) for name in sample.counters})


def _stamps(case: _Case, side: str, dim: str) -> dict[str, Any]:
    """Times, phase and validity of every sample; a trial with fewer samples than others has absent ones."""
    shape = _sample_shape(case, side)
    if not shape[-1]:
        return {}
    data = {
        "t0_ns": np.zeros(shape, "i8"),
        "t1_ns": np.zeros(shape, "i8"),
        "phase": np.zeros(shape, "u1"),
        "valid": np.full(shape, ABSENT, "u2"),
    }
    for at, sample in _iter_samples(case, side):
        data["t0_ns"][at], data["t1_ns"][at] = sample.t0_ns, sample.t1_ns
        data["phase"][at] = (NONE, *PHASES).index(sample.phase)
        data["valid"][at] = PHASE_BITS[sample.phase]
    return {dim: range(shape[-1])} | data


def _grid(case: _Case, side: str, names: Names, scales: Sequence[str]) -> dict[str, Any]:
    """Counters on sample x the axes named; only values that occur get a place on an axis."""
    if not names:
        return {}
    axes = [sorted({_scale_value(place[at]) for place in names.values()}) for at in range(len(scales))]
    index = {
        name: tuple(axis.index(_scale_value(part)) for axis, part in zip(axes, place, strict=True))
        for name, place in names.items()
    }
    shape = (*_sample_shape(case, side), *map(len, axes))
    counters, present = np.zeros(shape, "u8"), np.zeros(shape, "u1")
    for at, sample in _iter_samples(case, side):
        for name, value in sample.counters.items():
            if name in index:
                counters[at + index[name]] = _u64(name, value)
                present[at + index[name]] = 1
    return {**dict(zip(scales, axes, strict=True)), "counters": counters, "present": present}


def _scale_value(part: str) -> Any:
    return int(part) if part.isdecimal() else part


def _u64(name: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**64:
        raise XdpreproError(
            f"counter {name} is {value!r}, no unsigned 64-bit number",
            hint="the agent or the journal is damaged",
            status=STORAGE,
        )
    return value


def _iter_readings(case: _Case) -> Iterable[tuple[TrialKey, str, str, Reading]]:
    """Every reading of an edge: trial, edge, `side.source`, reading."""
    for trial in case.trials:
        for side in SIDES:
            for edge, readings in stream(trial, side).edges.items():
                for reading in readings:
                    yield trial.key, edge, f"{side}.{reading.source}", reading


def _edges(case: _Case) -> dict[str, Any]:
    readings = list(_iter_readings(case))
    if not readings:
        return {}
    edges = list(dict.fromkeys((*EDGES, *(edge for _, edge, _, _ in readings))))
    sources = list(dict.fromkeys(source for _, _, source, _ in readings))
    names = sorted({(sources.index(source), key) for _, _, source, r in readings for key in r.counters})
    place = {name: at for at, name in enumerate(names)}
    of_sources, of_counters = (*case.shape, len(edges), len(sources)), (*case.shape, len(edges), len(names))
    data: dict[str, Any] = {
        "source_present": np.zeros(of_sources, "u1"),
        "t0_ns": np.zeros(of_sources, "i8"),
        "t1_ns": np.zeros(of_sources, "i8"),
        "values": np.zeros(of_counters, "u8"),
        "present": np.zeros(of_counters, "u1"),
    }
    for key, edge, source, reading in readings:
        at = (key.boot, key.trial, edges.index(edge))
        number = sources.index(source)
        data["source_present"][(*at, number)] = 1
        data["t0_ns"][(*at, number)], data["t1_ns"][(*at, number)] = reading.t0_ns, reading.t1_ns
        for name, value in reading.counters.items():
            where = (*at, place[number, name])
            data["values"][where], data["present"][where] = _u64(f"{source}.{name}", value), 1
    scales = {"edge": edges, "edge_source": sources}
    if not names:
        return scales | {name: data[name] for name in ("source_present", "t0_ns", "t1_ns")}
    texts = [f"{sources[number]}.{name}" for number, name in names]
    return {**scales, "edge_counter": texts, "source_index": [number for number, _ in names], **data}

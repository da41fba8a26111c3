# SPDX-License-Identifier: GPL-2.0-or-later
"""Where every packet of a trial went, to the packet.

A packet that its sender's kernel accepted ends at exactly one place. The places are raw counters of both edges, read
when nothing moves: before anything is sent, and after both sides have drained.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xdprepro.cases import role_of
from xdprepro.places import GENERIC, PLACES, Places
from xdprepro.sample import SIDES, Counters, Run, Stream, Trial
from xdprepro.stages import Ends, Stage, count_unsent, make_stages, needed_sources
from xdprepro.stats import app_pattern, count_seen, kind_of, sum_counters

# Generators that send a frame again until the port takes it.
RETRYING = ("af-packet",)


@dataclass(frozen=True, slots=True)
class Closure:
    """The balance of a trial; a closed trial has no reasons.

    `generic` says that a driver has no table of its own, `unchecked` that nobody has seen its table close.
    `lost_on_the_way` are packets that the DUT sent, and the tester did not receive; `copied` those that it made.
    `decreased` are counters of the places that went backwards.
    `hints` are events that drivers counted, by class: they tell why, and how often, but not of how many packets.
    """

    generated: int
    refused: int
    terms: tuple[tuple[str, int], ...]
    generic: bool
    reasons: tuple[str, ...]
    unchecked: bool = False
    lost_on_the_way: int = 0
    copied: int = 0
    hints: tuple[tuple[str, int], ...] = ()
    decreased: tuple[str, ...] = ()

    @property
    def accepted(self) -> int:
        """What the sender's kernel took."""
        return self.generated - self.refused

    @property
    def accounted(self) -> int:
        """What was found again, copies left out."""
        return sum(count for _, count in self.terms) - self.copied

    @property
    def open(self) -> bool:
        """Whether any packet is missing, was counted twice, or cannot be counted."""
        return bool(self.reasons)


def close_trial(trial: Trial, run: Run) -> Closure:
    """The balance of a trial, with the drivers that the run's fingerprint names."""
    params = run.cases[trial.key.case_id]
    dut, tester = (find_driver(run.fingerprint, side, port=params.get("port", "")) for side in SIDES)
    return close_losses(trial, params, dut_driver=dut, tester_driver=tester)


def find_driver(fingerprint: Mapping[str, Any], side: str, *, port: str = "") -> str:
    """The driver of one end; a guest has a pair of ports for each `port`, and none if it never got as far."""
    ends = fingerprint.get("ports", {}).get(port, {}) if port else {end: fingerprint[end]["port"] for end in SIDES}
    return str(ends.get(side, {}).get("driver", ""))


def close_losses(trial: Trial, params: Mapping[str, Any], *, dut_driver: str, tester_driver: str) -> Closure:
    """Balance the edges of a trial, stage by stage from whoever sends to where its packets end."""
    dut_places, tester_places = (PLACES.get(driver, GENERIC) for driver in (dut_driver, tester_driver))
    ends = Ends(trial.dut.delta(), trial.tester.delta(), dut_places, tester_places)
    generated, refused = _count_sent(trial, params, ends)
    stages = make_stages(params, ends, accepted=generated - refused)
    reasons = [f"{stage.name}: {_format_missing(stage)}" for stage in stages if stage.missing]
    reasons += _foreign_frames(refused, stages)
    reasons += _unlike_window(trial, ends.dut)
    for side, sources in needed_sources(params, dut_places).items():
        reasons += _unreadable(side, trial.dut if side == "dut" else trial.tester, sources)
    has_tester = kind_of(params).has_tester
    return Closure(
        generated=generated,
        refused=refused,
        terms=_last_places(stages),
        generic=has_tester and not {dut_driver, tester_driver} <= PLACES.keys(),
        reasons=tuple(reasons),
        unchecked=has_tester and not (dut_places.checked and tester_places.checked),
        lost_on_the_way=sum(max(0, stage.missing) for stage in stages if stage.leaves),
        copied=sum(stage.copied for stage in stages),
        hints=(*_find_hints("DUT", ends.dut, dut_places), *_find_hints("tester", ends.tester, tester_places)),
        decreased=(*_find_decreased(trial.dut, dut_places), *_find_decreased(trial.tester, tester_places)),
    )


def _find_hints(end: str, counters: Counters, places: Places) -> Iterator[tuple[str, int]]:
    found = ((f"{end} {name}", sum_counters(counters, pattern)) for name, pattern in places.hints.items())
    return (one for one in found if one[1])


def _find_decreased(stream: Stream, places: Places) -> Iterator[str]:
    """Counters of a driver's places that are smaller at the end, or gone."""
    end = stream.edge("end")
    for name, value in stream.edge("start").items() if end else ():
        if end.get(name, 0) < value and any(re.fullmatch(pattern, name) for pattern in places.patterns):
            yield name


def _count_sent(trial: Trial, params: Mapping[str, Any], ends: Ends) -> tuple[int, int]:
    """Packets that were handed to the sender's kernel, and those of them that it did not send."""
    role = role_of(params)
    if role == "ring":
        return sum_counters(ends.dut, r"ring\.produced"), 0
    if role == "transmit":
        handed = sum_counters(ends.dut, app_pattern(params, "tx_packets"))
        again = sum_counters(ends.dut, r"pkt_app\.tx_errors")
        invalid = sum_counters(ends.dut, r"xsk\.q\d+(\.s\d+)?\.tx_invalid_descs")
        return handed, invalid + count_unsent(ends.dut, ends.dut_places, handed - invalid, again=again)
    generated = sum_counters(ends.tester, r"generator\.cpu\d+\.packets")
    used = trial.tester.ready.get("generator", {}).get("generator")
    again = sum_counters(ends.tester, r"generator\.cpu\d+\.errors") if used in RETRYING else 0
    return generated, count_unsent(ends.tester, ends.tester_places, generated, again=again)


def _last_places(stages: tuple[Stage, ...]) -> tuple[tuple[str, int], ...]:
    """The terms of all stages without those that a later stage takes further, zeros left out."""
    onward = {stage.name for stage in stages[1:]}
    return tuple((name, count) for stage in stages for name, count in stage.terms if count and name not in onward)


def _format_missing(stage: Stage) -> str:
    counted = stage.entered - stage.missing
    return (
        f"{stage.entered} in, {counted} counted, {abs(stage.missing)} {'missing' if stage.missing > 0 else 'too many'}"
    )


def _foreign_frames(refused: int, stages: tuple[Stage, ...]) -> Iterator[str]:
    """A port that sent more than it was handed sent frames of others, which would hide as many that were lost."""
    if refused < 0:
        yield f"generated: the sender's port sent {-refused} frames more than it was handed"
    for stage in stages:
        yield from (f"{stage.name}: {name} is {count}, less than none" for name, count in stage.terms if count < 0)


def _unlike_window(trial: Trial, dut: Counters) -> Iterator[str]:
    """A window that was opened late or closed early has not the packets of the trial."""
    if trial.profile and trial.profile.packets != (seen := count_seen(dut)):
        yield f"window: {trial.profile.packets} packets, the DUT saw {seen}"


def _unreadable(side: str, stream: Stream, sources: tuple[str, ...]) -> Iterator[str]:
    """What cannot be balanced because an edge or a source of it is absent: that is not a zero."""
    for edge in ("start", "end"):
        if edge not in stream.edges:
            yield f"{side}: no {edge} edge"
            continue
        have = {reading.source for reading in stream.edges[edge]}
        yield from (
            f"{side}: {source} absent: {stream.absent.get(source, f'not in the {edge} edge')}"
            for source in sources
            if source not in have
        )

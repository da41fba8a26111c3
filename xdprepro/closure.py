# SPDX-License-Identifier: GPL-2.0-or-later
"""Where every packet of a trial went, to the packet.

A packet that the tester's kernel accepted ends at exactly one place. The places are raw counters of both edges, read
when nothing moves: before the generator starts, and after both sides have drained.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xdprepro.places import GENERIC, PLACES, Places
from xdprepro.sample import SIDES, Counters, Run, Stream, Trial
from xdprepro.stats import action_pattern, kind_of, sum_counters

ACTIONS = ("XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT")

# Generators that send a frame again until the port takes it.
RETRYING = ("af-packet",)


@dataclass(frozen=True, slots=True)
class Stage:
    """Packets that entered a part of the way, and by name where they are now."""

    name: str
    entered: int
    terms: tuple[tuple[str, int], ...]

    @property
    def missing(self) -> int:
        """Packets that no counter accounts for; negative when more came out than went in."""
        return self.entered - sum(count for _, count in self.terms)


@dataclass(frozen=True, slots=True)
class Closure:
    """The balance of a trial; `generic` says that the driver has no table of its own. A closed trial has no reasons."""

    generated: int
    refused: int
    terms: tuple[tuple[str, int], ...]
    generic: bool
    reasons: tuple[str, ...]

    @property
    def accepted(self) -> int:
        """What the tester's kernel took from the generator."""
        return self.generated - self.refused

    @property
    def accounted(self) -> int:
        """What was found again."""
        return sum(count for _, count in self.terms)

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
    """Balance the edges of a trial: generator to program, and program to tester or socket."""
    dut_places, tester_places = (PLACES.get(driver, GENERIC) for driver in (dut_driver, tester_driver))
    dut, tester = trial.dut.delta(), trial.tester.delta()
    generated = sum_counters(tester, r"generator\.cpu\d+\.packets")
    refused = _count_refused(trial.tester, tester, tester_places, generated)
    stages = _stages(dut, tester, params, dut_places, accepted=generated - refused)
    reasons = [f"{stage.name}: {_format_missing(stage)}" for stage in stages if stage.missing]
    reasons += _unlike_window(trial, dut)
    wanted = {"dut": _sources(params, dut_places), "tester": ("generator", "netdev", "xdp_prog")}
    reasons += [*_unreadable("dut", trial.dut, wanted["dut"]), *_unreadable("tester", trial.tester, wanted["tester"])]
    return Closure(
        generated=generated,
        refused=refused,
        terms=_last_places(stages),
        generic=not {dut_driver, tester_driver} <= PLACES.keys(),
        reasons=tuple(reasons),
    )


def _count_refused(stream: Stream, tester: Counters, places: Places, generated: int) -> int:
    """Frames that count as sent for the generator, but not for its port.

    A frame of AF_PACKET that the port refuses stays in the ring and is sent again. The refusal is an error of the
    generator, and on most ports a drop, too; only drops beyond those errors are lost frames.
    """
    dropped = _count_unsent(tester, places, generated)
    if places.sent:
        return dropped
    if stream.ready.get("generator", {}).get("generator") in RETRYING:
        return max(0, dropped - sum_counters(tester, r"generator\.cpu\d+\.errors"))
    return dropped


def _stages(
    dut: Counters, tester: Counters, params: Mapping[str, Any], places: Places, *, accepted: int
) -> tuple[Stage, ...]:
    """One stage up to the program, and for packets that go on from there one more."""
    kind = kind_of(params)
    seen = [(action, sum_counters(dut, action_pattern(action))) for action in ACTIONS]
    socket = _socket_terms(dut) if kind.uses_xsk else ()
    unseen = _count(dut, places.unseen)
    # A counter that serves both sides of the program also has what the socket refused. Of the rest, as much as is
    # missing before the program was dropped there, and what remains must fit behind it.
    known = sum(count for _, count in socket[1:])
    known += sum(dict(seen)[action] for action in ("XDP_ABORTED", "XDP_DROP")) if places.either_has_program else 0
    either = max(0, _count(dut, places.either) - known)
    gap = accepted - unseen - sum(count for _, count in seen)
    before = min(max(gap, 0), either)
    receive = Stage("receive", accepted, (("dropped before the program", unseen + before), *seen))
    if kind.role == "sink" and not kind.uses_xsk:
        return (receive,)
    onward = socket if kind.uses_xsk else _forward_terms(dut, tester, places, dict(seen)[kind.action])
    return receive, Stage(kind.action, dict(seen)[kind.action], (*onward, ("redirect failed", either - before)))


def _socket_terms(dut: Counters) -> tuple[tuple[str, int], ...]:
    """Packets for a socket: received by the application, or refused by the socket."""
    refused = [(f"xsk.{name}", sum_counters(dut, rf"xsk\.q\d+\.{name}")) for name in ("rx_dropped", "rx_ring_full")]
    return ("xsk_app.rx_packets", sum_counters(dut, r"xsk_app\.q\d+\.rx_packets")), *refused


def _forward_terms(dut: Counters, tester: Counters, places: Places, forwarded: int) -> tuple[tuple[str, int], ...]:
    returned = sum(sum_counters(tester, action_pattern(action)) for action in ACTIONS)
    return ("returned", returned), ("not sent", _count_unsent(dut, places, forwarded))


def _count_unsent(counters: Counters, places: Places, handed: int) -> int:
    """Of the packets that were handed to a port, those that it did not send."""
    return handed - sum_counters(counters, places.sent) if places.sent else _count(counters, places.unsent)


def _count(counters: Counters, pattern: str) -> int:
    return sum_counters(counters, pattern) if pattern else 0


def _last_places(stages: tuple[Stage, ...]) -> tuple[tuple[str, int], ...]:
    """The terms of all stages without those that a later stage takes further, zeros left out."""
    onward = {stage.name for stage in stages[1:]}
    return tuple((name, count) for stage in stages for name, count in stage.terms if count and name not in onward)


def _format_missing(stage: Stage) -> str:
    counted = stage.entered - stage.missing
    return (
        f"{stage.entered} in, {counted} counted, {abs(stage.missing)} {'missing' if stage.missing > 0 else 'too many'}"
    )


def _unlike_window(trial: Trial, dut: Counters) -> Iterator[str]:
    """A window that was opened late or closed early has not the packets of the trial."""
    seen = sum_counters(dut, action_pattern(r"\w+"))
    if trial.profile and trial.profile.packets != seen:
        yield f"window: {trial.profile.packets} packets, the program saw {seen}"


def _sources(params: Mapping[str, Any], places: Places) -> tuple[str, ...]:
    """The sources that the balance of a case needs on the DUT."""
    onward = (places.unsent, places.sent) if kind_of(params).role == "forward" else ()
    patterns = (places.unseen, places.either, *onward)
    return (
        "xdp_prog",
        *(("xsk", "xsk_app") if kind_of(params).uses_xsk else ()),
        *sorted({pattern.split("\\")[0] for pattern in patterns if pattern}),
    )


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

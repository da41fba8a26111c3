# SPDX-License-Identifier: GPL-2.0-or-later
"""Where every packet of a trial went, to the packet, and which trials a verdict may use.

A packet that the tester's kernel accepted ends at exactly one place. The places are raw counters of both edges, read
when nothing moves: before the generator starts, and after both sides have drained.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xdprepro.places import GENERIC, PLACES, Places
from xdprepro.sample import SIDES, Counters, Run, Stream, Trial
from xdprepro.stats import (
    SLOW_READING,
    action_pattern,
    is_counted,
    kind_of,
    measured,
    rate_pattern,
    returned_share,
    sum_counters,
    trial_rate,
)

ACTIONS = ("XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT")

# Generators that send a frame again until the port takes it.
RETRYING = ("af-packet",)

# Counters that only ever grow; the other sources also hold gauges, such as softnet's queue lengths.
MONOTONIC = r"(xdp_prog|xsk_app|xsk|generator|netdev)\..*"

# Above this share of packets on other queues or with other actions, a trial measured something else than its case.
FOREIGN_SHARE = 0.01

# Above this share of the measure phase without a packet, the rate is that of the load and not of the DUT.
LOAD_GAP = 0.1

# Above this share of a CPU's time in other hands, ns per packet is no longer the packets' time.
SHARED_CPU = 0.02
TICKS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
PROGRAM_CPU = re.compile(r"xdp_prog\.cpu(\d+)\.")
SOCKET_DROPS = r"xsk\.q\d+\.(rx_dropped|rx_ring_full)"


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


# name -> (excluded from verdicts, what it means); bit n of the mask is entry n, so entries are only ever appended.
MEANINGS: Mapping[str, tuple[bool, str]] = {
    "failed": (True, "the trial did not end well"),
    "loss_open": (True, "packets are missing, counted twice or cannot be counted"),
    "counter_decreased": (True, "a counter went backwards: reset, or another program took its place"),
    "mode_mismatch": (True, "the kernel's answer is not the mode, socket or generator asked for"),
    "no_samples": (True, "fewer than two samples in the measure phase"),
    "no_packets": (True, "no packet reached its end in the measure phase"),
    "wrong_queue": (True, "more than 1 % of the packets came in on a queue without a socket"),
    "other_action": (True, "more than 1 % of the packets met another action than that of the case"),
    "stalled": (False, "an interval of the measure phase passed without any packet"),
    "closure_generic": (False, "no counter table for this driver: the balance uses rtnl_link_stats64"),
    "cpu_shared": (False, "other programs, or the hypervisor, took more than 2 % of a CPU that received"),
    "overrun": (False, "more than 1 % of the packets found the socket's ring full: the application is the limit"),
    "load_gap": (True, "for more than 10 % of the measure phase no packet came"),
    "slow_reading": (False, "the first or last reading of the measure phase took more than 0.1 % of its window"),
    "no_count": (True, "the counts of instructions are missing, or their sum is not what was counted in all"),
}
FLAGS = tuple(MEANINGS)


def trial_flags(trial: Trial, run: Run) -> int:
    """The bit mask of all flags of a trial of this run."""
    params = run.cases[trial.key.case_id]
    return find_flags(trial, params, close_trial(trial, run))


def find_flags(trial: Trial, params: Mapping[str, Any], closure: Closure) -> int:
    """The same, when the balance is known."""
    timed = not is_counted(params)
    raised = {
        "failed": trial.status != "ok",
        "loss_open": closure.open,
        "counter_decreased": has_decrease(trial.dut) or has_decrease(trial.tester),
        "mode_mismatch": bool(mode_mismatches(trial, params)),
        "closure_generic": closure.generic,
        "cpu_shared": timed and _is_cpu_shared(trial.dut.delta(), params),
        **_program_flags(trial.dut, params),
        **(_sample_flags(trial, params) if timed else _window_flags(trial, params)),
    }
    return sum(1 << bit for bit, name in enumerate(FLAGS) if raised.get(name))


def flag_names(mask: int) -> tuple[str, ...]:
    """The names of a mask's flags."""
    return tuple(name for bit, name in enumerate(FLAGS) if mask >> bit & 1)


def excluding(mask: int) -> tuple[str, ...]:
    """Those of a mask's flags that keep the trial out of verdicts."""
    return tuple(name for name in flag_names(mask) if MEANINGS[name][0])


def has_decrease(stream: Stream) -> bool:
    """Whether a counter got smaller, or vanished, from one reading to the next."""
    cheap = [sample.counters for sample in stream.samples]
    edges = [stream.edge(name) for name in ("start", "end") if name in stream.edges]
    return any(
        after.get(name, 0) < value
        for readings in (cheap, edges)
        for before, after in itertools.pairwise(readings)
        for name, value in before.items()
        if re.fullmatch(MONOTONIC, name)
    )


def mode_mismatches(trial: Trial, params: Mapping[str, Any]) -> tuple[str, ...]:
    """Every way in which what the kernel answered is not what the case asked for; empty without a `ready`."""
    ready, done = trial.dut.ready, trial.dut.done
    asked_and_got = [
        ("attach_mode", params["attach_mode"], ready.get("attach", {}).get("attach_mode")),
        ("program at the end", ready.get("attach", {}).get("prog_id"), done.get("attach", {}).get("prog_id")),
        *((f"queue {s['queue_id']} bind_mode", params["bind_mode"], s["bind_mode"]) for s in ready.get("xsk", ())),
    ]
    if params["generator"] != "auto":
        got = trial.tester.ready.get("generator", {}).get("generator")
        asked_and_got.append(("generator", params["generator"], got))
    if kind_of(params).uses_xsk:
        asked_and_got.append(("a socket", True, bool(ready["xsk"]) if "xsk" in ready else None))
    # A trial that ended well has said all of this, so silence is no proof of a mode; one that broke off may not have.
    return tuple(
        f"{what}: asked {asked}, got {got}"
        for what, asked, got in asked_and_got
        if asked != got and (trial.status == "ok" or None not in (asked, got))
    )


def _program_flags(stream: Stream, params: Mapping[str, Any]) -> dict[str, bool]:
    """What the program's own counters tell over the whole trial."""
    delta = stream.delta()
    total = sum_counters(delta, action_pattern(r"\w+"))
    wanted = sum_counters(delta, action_pattern(kind_of(params).action))
    bound = "|".join(str(socket["queue_id"]) for socket in stream.ready.get("xsk", ()))
    on_bound = sum_counters(delta, rf"xdp_prog\.cpu\d+\.rxq({bound})\.\w+\.packets") if bound else total
    return {
        "other_action": total - wanted > FOREIGN_SHARE * total,
        "wrong_queue": kind_of(params).uses_xsk and total - on_bound > FOREIGN_SHARE * total,
        "overrun": sum_counters(delta, SOCKET_DROPS) > FOREIGN_SHARE * total,
    }


def _is_cpu_shared(delta: Counters, params: Mapping[str, Any]) -> bool:
    """Whether a CPU that ran the program spent time in user space, where neither softirq nor live frames ever are.

    A generator of AF_PACKET and the loop of a socket are in user space by right; on their CPUs only stolen time counts.
    Time is in ticks of 10 ms as a rule, so a single one says nothing.
    """
    cpus = params.get("cpus", {})
    users = {cpus.get("app")} if kind_of(params).uses_xsk else set()
    users |= set(cpus.get("generators", ())) if params["generator"] == "af-packet" else set()
    for cpu in {int(found[1]) for name in delta if delta[name] and (found := PROGRAM_CPU.match(name))}:
        ticks = {kind: delta.get(f"proc_stat.cpu{cpu}.{kind}", 0) for kind in TICKS}
        foreign = ticks["steal"] + (0 if cpu in users else ticks["user"] + ticks["nice"])
        if foreign > 1 and foreign > SHARED_CPU * sum(ticks.values()):
            return True
    return False


def _window_flags(trial: Trial, params: Mapping[str, Any]) -> dict[str, bool]:
    """What the counts of a window tell; nothing in it was timed."""
    profile = trial.profile
    whole = profile is not None and sum(row.insn for row in profile.rows) == profile.total_insn
    none = profile is not None and (not profile.packets or returned_share(trial, params) == 0)
    return {"no_count": not whole, "no_packets": none}


def _sample_flags(trial: Trial, params: Mapping[str, Any]) -> dict[str, bool]:
    """What the samples of the measure phase tell."""
    samples = measured(trial.dut.samples)
    counts = [sum_counters(sample.counters, rate_pattern(params)) for sample in samples]
    steps = [after - before for before, after in itertools.pairwise(counts)]
    # A sampler that was late reads twice in a row, and nothing need come between.
    shortest_ns = params["interval_s"] * 1e9 / 2
    times_ns = [after.t0_ns - before.t1_ns for before, after in itertools.pairwise(samples)]
    gaps_ns = sum(ns for ns, step in zip(times_ns, steps, strict=True) if ns >= shortest_ns and not step)
    rate = trial_rate(trial, params)
    return {
        "no_samples": rate is None,
        "no_packets": bool(steps) and (sum(steps) <= 0 or returned_share(trial, params) == 0),
        "stalled": gaps_ns > 0,
        "load_gap": rate is not None and gaps_ns > LOAD_GAP * rate.window_ns,
        "slow_reading": rate is not None and rate.reading_ns > SLOW_READING * rate.window_ns,
    }

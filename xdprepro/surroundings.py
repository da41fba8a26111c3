# SPDX-License-Identifier: GPL-2.0-or-later
"""What went on around the packets of a trial: settings, interrupts of others, clocks, pause frames.

Each is read at the edges (docs/counters.md). What a machine does not tell raises no flag.
"""

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from xdprepro.sample import SIDES, Counters, Stream, Trial
from xdprepro.stats import CORE_SHARE, kind_of

# What drivers call pause frames of either direction, in what `ethtool -S` tells.
PAUSE = re.compile(r".*(pause|xoff|xon)(?!.*(duration|transition)).*", re.IGNORECASE)

# Interrupts a second of a device that is neither port: at 10 us each, 0.1 % of the CPU that received.
FOREIGN_PER_S = 100
INTERRUPT = re.compile(r"cpu(\d+)\.(\d+)(?!\.(timer|arch_timer|hpet\d+)$)(\..*)?")
NET_RX = re.compile(r"cpu(\d+)\.NET_RX")
RECEIVING = re.compile(r"(?:xdp_prog|xdp_remote|tc_prog)\.cpu(\d+)\.")

# Further from the median of a case's trials, a CPU had another clock.
CLOCK_DRIFT = 0.005

# Programs that come and go on one end of a veth pair switch the other end's transmit offloads.
UNSETTLED = re.compile(r"features\.tx-.*")
# The lab may set these for the sake of a case; a change during a trial is nobody's.
OF_THE_CASE = re.compile(r"mtu|features\.rx-gro")


def surrounding_flags(
    trial: Trial, params: Mapping[str, Any], *, others: Sequence[Trial] = (), timed: bool = True
) -> dict[str, bool]:
    """Which flags are raised, in view of the other trials of the run; what takes time matters only to what is timed."""
    same_case = [one for one in others if one.key.case_id == trial.key.case_id]
    same_boot = [one for one in others if one.key.boot == trial.key.boot]
    changed = any(changed_settings(stream) for stream in _streams(trial))
    return {
        "pause_frames": any(count_pauses(stream) for stream in _streams(trial)),
        "settings_left": changed or bool(left_settings(trial, same_boot)),
        "foreign_irq": timed and bool(find_foreign_interrupts(trial, params)),
        "freq_unstable": timed and _is_unstable(trial, params, same_case),
        "pmu_multiplexed": timed and _is_multiplexed(trial.dut),
    }


def _streams(trial: Trial) -> tuple[Stream, ...]:
    return tuple(getattr(trial, side) for side in SIDES)


def read_source(stream: Stream, edge: str, source: str) -> Counters:
    """The counters of one source at one edge; none where it is absent."""
    return next((one.counters for one in stream.edges.get(edge, ()) if one.source == source), {})


def _grown(stream: Stream, source: str) -> dict[str, int]:
    start = read_source(stream, "start", source)
    return {name: value - start.get(name, 0) for name, value in read_source(stream, "end", source).items()}


def count_pauses(stream: Stream) -> int:
    """Pause frames that a port sent or received."""
    return sum(count for name, count in _grown(stream, "ethtool").items() if count > 0 and PAUSE.fullmatch(name))


def receiving_cpus(stream: Stream) -> set[int]:
    """The CPUs on which a program of the trial saw packets."""
    found = {name: RECEIVING.match(name) for name, count in stream.delta().items() if count}
    return {int(one[1]) for one in found.values() if one}


def busy_cpus(stream: Stream, params: Mapping[str, Any]) -> set[int]:
    """The CPUs on which the packets were handled: by a program, or without one in softirqs, and by an application."""
    kind = kind_of(params)
    threads = params.get("cpus", {}).get("apps", ()) if kind.app or kind.role == "ring" else ()
    return (receiving_cpus(stream) or _softirq_cpus(stream)) | set(threads)


def _softirq_cpus(stream: Stream) -> set[int]:
    """Those with a share of the receive softirqs worth the name."""
    grown = {cpu[1]: count for name, count in _grown(stream, "softirqs").items() if (cpu := NET_RX.fullmatch(name))}
    total = sum(grown.values())
    return {int(cpu) for cpu, count in grown.items() if count >= CORE_SHARE * total > 0}


def find_foreign_interrupts(trial: Trial, params: Mapping[str, Any]) -> dict[str, int]:
    """Interrupts of other devices that came often to CPUs that handled packets, by name.

    The timers of CPUs, and what they send each other, have names instead of numbers on most machines.
    """
    ours = {number for stream in _streams(trial) for number in stream.ready.get("irqs", ())}
    cpus, length_s = busy_cpus(trial.dut, params), _length_s(trial.dut, "interrupts")
    return {
        name: count
        for name, count in _grown(trial.dut, "interrupts").items()
        if (found := INTERRUPT.fullmatch(name))
        and int(found[1]) in cpus
        and int(found[2]) not in ours
        and count > FOREIGN_PER_S * length_s
    }


def _length_s(stream: Stream, source: str) -> float:
    """From edge to edge."""
    times = [one.t0_ns for edge in ("start", "end") for one in stream.edges.get(edge, ()) if one.source == source]
    return (times[-1] - times[0]) / 1e9 if len(times) > 1 else 0.0


def clock_shares(stream: Stream, params: Mapping[str, Any]) -> dict[int, float]:
    """By CPU that handled packets: its clock while awake, as a share of its nominal one."""
    grown = _grown(stream, "msr")
    cpus = busy_cpus(stream, params)
    pairs = {cpu: (grown.get(f"cpu{cpu}.aperf", 0), grown.get(f"cpu{cpu}.mperf", 0)) for cpu in cpus}
    return {cpu: aperf / mperf for cpu, (aperf, mperf) in pairs.items() if aperf and mperf}


def _is_unstable(trial: Trial, params: Mapping[str, Any], same_case: Sequence[Trial]) -> bool:
    if not read_source(trial.dut, "end", "msr"):
        return False
    usual: dict[int, list[float]] = {}
    for one in same_case:
        for cpu, share in clock_shares(one.dut, params).items():
            usual.setdefault(cpu, []).append(share)
    return any(
        abs(share / statistics.median(usual[cpu]) - 1) > CLOCK_DRIFT
        for cpu, share in clock_shares(trial.dut, params).items()
        if cpu in usual
    )


def _is_multiplexed(stream: Stream) -> bool:
    """Whether the PMU counted the events of a group for a part of the time only."""
    grown = _grown(stream, "pmu")
    enabled = {name.removesuffix("enabled_ns"): ns for name, ns in grown.items() if name.endswith(".enabled_ns")}
    return any(grown.get(f"{cpu}running_ns", 0) < ns for cpu, ns in enabled.items())


def changed_settings(stream: Stream) -> dict[str, tuple[int | None, int | None]]:
    """Settings of a port that were others at the end than at the start, by name."""
    start, end = (read_source(stream, edge, "settings") for edge in ("start", "end"))
    return _differences(start, end) if start and end else {}


def left_settings(trial: Trial, same_boot: Sequence[Trial]) -> dict[str, tuple[int | None, int | None]]:
    """Settings of the DUT that this trial found otherwise than the first one of its boot, before either changed any."""
    found = found_settings(trial.dut)
    first = next((known for one in same_boot if (known := found_settings(one.dut))), found)
    return _differences(first, found, but=OF_THE_CASE) if found else {}


def found_settings(stream: Stream) -> Mapping[str, Any]:
    """How the port was set before the agent changed anything; empty where it does not say."""
    start = read_source(stream, "start", "settings")
    return {**start, **stream.ready.get("settings_found", {})} if start else {}


def _differences(
    before: Mapping[str, Any], after: Mapping[str, Any], *, but: re.Pattern[str] | None = None
) -> dict[str, tuple[int | None, int | None]]:
    names = (name for name in sorted({*before, *after}) if not UNSETTLED.fullmatch(name))
    return {
        name: (before.get(name), after.get(name))
        for name in names
        if before.get(name) != after.get(name) and not (but and but.fullmatch(name))
    }

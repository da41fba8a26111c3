# SPDX-License-Identifier: GPL-2.0-or-later
"""From counters to rates: what counts as handled, over which time, and on how many cores.

The quantity is ns per packet and core, as costs add up in ns.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdprepro.cases import role_of
from xdprepro.kinds import CASE_KINDS, CaseKind
from xdprepro.sample import Counters, Sample, Trial

# A CPU that saw less of the window's packets did not serve the case: a timer moved there for a moment.
CORE_SHARE = 0.01
# In this order: a program, an application that receives, one that sends, the port.
SEEN_BY = (
    r"(xdp|tc)_prog\.cpu\d+\.rxq\d+\.\w+\.packets",
    r"\w+_app\.(q\d+\.)?(s\d+\.)?rx_packets",
    r"\w+_app\.(q\d+\.)?(s\d+\.)?tx_packets",
    r"netdev\.rx_packets",
)
SLOW_READING = 0.001  # a reading longer than this share of the window blurs its ends


@dataclass(frozen=True, slots=True)
class Rate:
    """Packets of the measure window; `returned` is the share of forwarded packets that came back, 1 for a sink.

    `reading_ns` is how long the slower of the two readings at its ends took, within which the counters were read.
    """

    packets: int
    window_ns: int
    cores: int
    returned: float = 1.0
    reading_ns: int = 0

    @property
    def pps(self) -> float:
        """Packets a second that reached their end."""
        return self.packets * self.returned * 1e9 / self.window_ns

    @property
    def ns_per_packet(self) -> float:
        """Time of one core for one packet; infinite when none reached its end."""
        return 1e9 * self.cores / self.pps if self.pps else math.inf


def kind_of(params: Mapping[str, Any]) -> CaseKind:
    """The row of CASE_KINDS for the parameters of a case."""
    return CASE_KINDS[params["case"]]


def tested_sides(params: Mapping[str, Any]) -> tuple[str, ...]:
    """The sides of a profile that are under test; the others are the load and the rest of the machine."""
    if role_of(params) == "transmit":
        return ("generator", "app")  # the DUT's own sender opened the window
    return ("receive", "app") if kind_of(params).in_app else ("receive",)


def count_seen(dut: Counters) -> int:
    """The packets that came to the DUT or went out from it, by whoever is first to count them there."""
    counts = (sum_counters(dut, pattern) for pattern in SEEN_BY)
    return next((count for count in counts if count), 0)


def is_counted(params: Mapping[str, Any]) -> bool:
    """Whether the instructions of the case's packets were counted, in windows of so many packets, and nothing timed."""
    return bool(params.get("packets"))


def measures_rate(params: Mapping[str, Any]) -> bool:
    """Whether the case's rate means anything: other passes look at the packets' way, which costs time."""
    return bool(params.get("pass", "rate") == "rate")


def sum_counters(counters: Counters, pattern: str) -> int:
    """The sum of all counters whose whole name matches the regular expression."""
    return sum(value for name, value in counters.items() if re.fullmatch(pattern, name))


def rate_pattern(params: Mapping[str, Any]) -> str:
    """What counts as handled: by a program that returned what the case is about, or by an application.

    A second program of a cpumap decides for the first; an application that transmits handles what it sends.
    """
    kind, remote = kind_of(params), params.get("remote", "none") or "none"
    if kind.role == "ring":
        return r"ring\.consumed"
    if remote != "none":
        return remote_pattern(f"XDP_{remote.upper()}")
    if kind.in_app:
        taken = app_pattern(params, "tx_packets" if kind.role == "transmit" else "rx_packets")
        return "|".join([taken, *(action_pattern(one) for one in kind.also)])
    if not kind.program:
        return r"netdev\.rx_packets"
    return action_pattern("|".join([kind.action, *kind.also]), kind.program)


def action_pattern(action: str, program: str = "xdp_prog") -> str:
    """All records of one action of a program, or of several (`XDP_TX|XDP_DROP`), over CPUs and receive queues."""
    return rf"{program}\.cpu\d+\.rxq\d+\.({action})\.packets"


def remote_pattern(action: str) -> str:
    """The same of the program on the other side of a cpumap, where there are no queues."""
    return rf"xdp_remote\.cpu\d+\.({action})\.packets"


def app_pattern(params: Mapping[str, Any], counter: str) -> str:
    """A counter of the case's application, over queues and sockets, where it has such."""
    return rf"{kind_of(params).app}\.(q\d+\.)?(s\d+\.)?{counter}"


def measured(samples: Iterable[Sample]) -> list[Sample]:
    """The samples of the measure phase."""
    return [sample for sample in samples if sample.phase == "measure"]


def trial_rate(trial: Trial, params: Mapping[str, Any]) -> Rate | None:
    """The rate on the DUT from the first to the last good sample of the measure phase, or None without two samples.

    Stamps are `t1_ns`: the counters are memory-mapped, and the last of them is read just before it. A forward case
    counts only what came back, and one that transmits what arrived, as the DUT's own counters also have packets that
    the transmit side then dropped. The tester samples on its own clock, so the share comes from the edges of the whole
    trial, where nothing moves.
    """
    window = _find_window(measured(trial.dut.samples))
    if window is None:
        return None
    first, last = window
    pattern = rate_pattern(params)
    return Rate(
        packets=max(0, sum_counters(last.counters, pattern) - sum_counters(first.counters, pattern)),
        window_ns=last.t1_ns - first.t1_ns,
        cores=_count_cores(first.counters, last.counters, params),
        returned=returned_share(trial, params),
        reading_ns=max(first.t1_ns - first.t0_ns, last.t1_ns - last.t0_ns),
    )


def _find_window(samples: Sequence[Sample]) -> tuple[Sample, Sample] | None:
    """The outermost samples whose reading was not interrupted: in a long one, nobody knows when a counter was read.

    If there are not two such, the outermost ones; the trial is flagged then.
    """
    if len(samples) < 2 or samples[-1].t1_ns <= samples[0].t1_ns:
        return None
    longest_ns = SLOW_READING * (samples[-1].t1_ns - samples[0].t1_ns)
    quick = [sample for sample in samples if sample.t1_ns - sample.t0_ns <= longest_ns]
    return (quick[0], quick[-1]) if len(quick) > 1 else (samples[0], samples[-1])


def returned_share(trial: Trial, params: Mapping[str, Any]) -> float:
    """Of the packets that the DUT handled, those that came to the tester, or that the case drops, 0 to 1.

    Over the whole trial; 1 where they end on the DUT. Copies of a packet count once. What an application hands back to
    the stack of the DUT counts where it arrived there.
    """
    local = ".local" in params["case"] and kind_of(params).uses_xsk
    if not local and role_of(params) not in ("forward", "transmit"):
        return 1.0
    dut, kind = trial.dut.delta(), kind_of(params)
    handled = sum_counters(dut, rate_pattern(params))
    if local:
        return _share(sum_counters(dut, r"local_netdev\.rx_packets"), handled)
    ended = sum_counters(trial.tester.delta(), action_pattern("XDP_DROP")) / (params.get("fanout") or 1)
    ended += sum(sum_counters(dut, action_pattern(one)) for one in kind.also)
    ended += sum_counters(dut, app_pattern(params, "dropped")) if kind.app else 0
    return _share(ended, handled)


def _share(ended: float, handled: int) -> float:
    """More than handled means foreign packets; the loss closure says so, the rate must not gain from it."""
    return min(1.0, max(0.0, ended / handled)) if handled > 0 else 0.0


def _count_cores(first: Counters, last: Counters, params: Mapping[str, Any]) -> int:
    """How many CPUs at a time ran the program for a share of the packets worth the name, at least 1.

    A native queue is polled by one CPU at a time, however often it moves. With a socket or a cpumap, too, these are the
    receiving cores; what the other CPUs do is part of the case. Without a program nobody knows them, and it is taken as
    one; an application that transmits has a CPU for each of its threads.
    """
    if role_of(params) == "transmit":
        return max(1, len(params.get("cpus", {}).get("apps", ())))
    packets = {"cpu": Counter[str](), "rxq": Counter[str]()}
    for name, value in last.items():
        if found := re.fullmatch(r"(?:xdp|tc)_prog\.(cpu\d+)\.(rxq\d+)\.\w+\.packets", name):
            packets["cpu"][found[1]] += value - first.get(name, 0)
            packets["rxq"][found[2]] += value - first.get(name, 0)
    cpus, queues = (sum(n >= CORE_SHARE * of.total() > 0 for n in of.values()) for of in packets.values())
    return max(1, min(cpus, queues) if params["attach_mode"] == "native" else cpus)


def has_unseen_core(params: Mapping[str, Any]) -> bool:
    """Whether an application receives what no program has counted, so that nobody knows on how many CPUs."""
    kind = kind_of(params)
    return bool(kind.app) and not kind.program and role_of(params) in ("sink", "forward")

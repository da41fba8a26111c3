# SPDX-License-Identifier: GPL-2.0-or-later
"""From counters to rates, and from rates to intervals.

The quantity is ns per packet and core, as costs add up in ns. The unit of replication is the restart (boot): trials of
one restart share its code and memory layout, and taking them as independent calls identical kernels different.
Arrays are float64 of shape (restarts,), in ns per packet unless said otherwise.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from xdprepro.cases import role_of
from xdprepro.kinds import CASE_KINDS, CaseKind
from xdprepro.sample import Counters, Sample, Trial

Floats = NDArray[np.float64]

# A CPU that saw less of the window's packets did not serve the case: a timer moved there for a moment.
CORE_SHARE = 0.01
MAX_RESTARTS = 1000
LOG_OF_LARGEST = 709.0
# In this order: a program, an application that receives, one that sends, the port.
SEEN_BY = (
    r"(xdp|tc)_prog\.cpu\d+\.rxq\d+\.\w+\.packets",
    r"\w+_app\.(q\d+\.)?(s\d+\.)?rx_packets",
    r"\w+_app\.(q\d+\.)?(s\d+\.)?tx_packets",
    r"netdev\.rx_packets",
)
LEVEL = 0.99  # of confidence intervals
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


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over restarts; one restart has no spread, hence neither `sd` nor `interval`."""

    n: int
    mean: float
    sd: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """`b` minus `a` with its confidence interval and two-sided p."""

    delta: float
    low: float
    high: float
    dof: float
    p: float


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


def restart_means(by_restart: Mapping[int, Sequence[float]]) -> Floats:
    """The mean of each restart's trials, in the order of the restarts."""
    return np.array([np.mean(by_restart[boot]) for boot in sorted(by_restart)], dtype=np.float64)


def estimate(values: ArrayLike, level: float = LEVEL) -> Estimate:
    """Mean and Student's t interval (1908) of at least one restart mean."""
    x = np.asarray(values, dtype=np.float64)
    mean = float(x.mean())
    if x.size < 2:
        return Estimate(int(x.size), mean)
    sd = float(x.std(ddof=1))
    half = _t_quantile(x.size - 1, level) * sd / math.sqrt(x.size)
    return Estimate(int(x.size), mean, sd, (mean - half, mean + half))


def welch_interval(a: ArrayLike, b: ArrayLike, *, level: float = LEVEL) -> Difference:
    """Mean of b minus mean of a, without assuming equal spread (Welch 1947, degrees of freedom by Satterthwaite 1946).

    Needs two values a side. Without any spread on either side the interval is a point and p is 0 or 1: that is for
    exact counts, where an A/A pair has proved the zero.
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if min(x.size, y.size) < 2:
        raise ValueError(f"Welch's interval needs two values a side, not {x.size} and {y.size}")
    dof, se = _satterthwaite(x.size, y.size, float(x.std(ddof=1)), float(y.std(ddof=1)))
    return _difference(float(y.mean() - x.mean()), se, dof, level)


def paired_interval(a: ArrayLike, b: ArrayLike, *, level: float = LEVEL) -> Difference:
    """Mean of b minus a, value by value: for two cases that were measured in the same restarts. Needs two pairs."""
    d = np.asarray(b, dtype=np.float64) - np.asarray(a, dtype=np.float64)
    if d.size < 2:
        raise ValueError(f"a paired interval needs two pairs, not {d.size}")
    return _difference(float(d.mean()), float(d.std(ddof=1)) / math.sqrt(d.size), d.size - 1, level)


def relative_interval(a: ArrayLike, b: ArrayLike, *, level: float = LEVEL) -> Difference:
    """Change from a to b in percent: Welch's interval of the logarithms, exponentiated.

    The point is the ratio of geometric means, so a to b and b to a agree. `p` tests a ratio of 1. All values must be
    above zero.
    """
    logs = welch_interval(np.log(np.asarray(a)), np.log(np.asarray(b)), level=level)
    low, delta, high = (100 * _expm1(x) for x in (logs.low, logs.delta, logs.high))
    return Difference(delta, low, high, logs.dof, logs.p)


def _expm1(x: float) -> float:
    """exp(x) - 1, infinite beyond the range of a float: few restarts at a high level can ask for that."""
    return math.expm1(x) if x < LOG_OF_LARGEST else math.inf


def _difference(delta: float, se: float, dof: float, level: float) -> Difference:
    if se == 0:
        return Difference(delta, delta, delta, dof, 1.0 if delta == 0 else 0.0)
    half = _t_quantile(dof, level) * se
    return Difference(delta, delta - half, delta + half, dof, 2 * float(special.stdtr(dof, -abs(delta) / se)))


def _t_quantile(dof: float, level: float) -> float:
    return float(special.stdtrit(dof, (1 + level) / 2))


def _satterthwaite(n_a: int, n_b: int, sd_a: float, sd_b: float) -> tuple[float, float]:
    """Degrees of freedom and standard error of a difference of means."""
    var_a, var_b = sd_a**2 / n_a, sd_b**2 / n_b
    if var_a + var_b == 0:
        return float(n_a + n_b - 2), 0.0
    dof = (var_a + var_b) ** 2 / (var_a**2 / (n_a - 1) + var_b**2 / (n_b - 1))
    return dof, math.sqrt(var_a + var_b)


def minimum_detectable_effect(
    n_a: int, n_b: int, *, sd_a: float, sd_b: float, alpha: float = 0.01, power: float = 0.9
) -> float:
    """The least true difference that a two-sided test of this size finds with this power, in the unit of the sds.

    Exact noncentral t (Johnson & Welch 1940) with Satterthwaite's degrees of freedom. Needs two values a side.
    """
    if min(n_a, n_b) < 2:
        raise ValueError(f"an effect is detectable from two values a side on, not from {n_a} and {n_b}")
    dof, se = _satterthwaite(n_a, n_b, sd_a, sd_b)
    critical = _t_quantile(dof, 1 - alpha)
    # The test may also fire on the wrong side (below 1e-4 for a power of 0.5 and more): that is not finding it.
    return se * _root(lambda shift: float(1 - special.nctdtr(dof, shift, critical)) - power, critical + 10)


def _root(f: Callable[[float], float], guess: float) -> float:
    """Where a rising function crosses zero above 0."""
    high = guess
    while f(high) < 0:
        high *= 2
    return float(optimize.brentq(f, 0.0, high, xtol=1e-9))


def restarts_needed(effect: float, *, sd_a: float, sd_b: float, alpha: float = 0.01, power: float = 0.9) -> int | None:
    """The least number of restarts a side that detects `effect`; None above MAX_RESTARTS."""

    def is_enough(n: int) -> bool:
        return minimum_detectable_effect(n, n, sd_a=sd_a, sd_b=sd_b, alpha=alpha, power=power) <= effect

    low, high = 2, MAX_RESTARTS
    if not is_enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
    return low


def benjamini_hochberg(p: ArrayLike) -> Floats:
    """p values adjusted so that among those called below q a share q is false (Benjamini & Hochberg 1995)."""
    x = np.asarray(p, dtype=np.float64)
    order = np.argsort(x)[::-1]
    ranks = np.arange(x.size, 0, -1)
    adjusted = np.empty_like(x)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(x[order] * x.size / ranks))
    return adjusted

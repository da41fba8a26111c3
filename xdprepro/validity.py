# SPDX-License-Identifier: GPL-2.0-or-later
"""Which trials a verdict may use, and what speaks against the others: flags, from what the trial itself said."""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from xdprepro.closure import Closure, close_trial
from xdprepro.load import Limits, find_limits, load_flags
from xdprepro.sample import Counters, ProfileRow, Run, Stream, Trial, TrialKey
from xdprepro.stats import (
    SLOW_READING,
    action_pattern,
    is_counted,
    kind_of,
    measured,
    rate_pattern,
    returned_share,
    sum_counters,
    tested_sides,
    trial_rate,
)
from xdprepro.surroundings import surrounding_flags

# Counters that only ever grow; the other sources also hold gauges, such as softnet's queue lengths.
MONOTONIC = r"(xdp_prog|xdp_remote|tc_prog|xsk_app|pkt_app|pkt|udp_app|udp|ring|xsk|generator|netdev)\..*"

# Above this share of packets on other queues or with other actions, a trial measured something else than its case.
FOREIGN_SHARE = 0.01

# Above this share of the measure phase without a packet, the rate is that of the load and not of the DUT.
LOAD_GAP = 0.1

# Above this share of a CPU's time in other hands, ns per packet is no longer the packets' time.
SHARED_CPU = 0.02
TICKS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
PROGRAM_CPU = re.compile(r"(?:xdp|tc)_prog\.cpu(\d+)\.")
QUEUES = ("xsk_ring_full", "xsk_fill_empty", "xsk_dropped", "socket_full", "cpumap_full")

# Above this share of what the DUT accepted, what it sent and the tester did not receive is more than an edge's blur.
LOST_SHARE = 0.001

# The first three intervals, or more up to a quarter, must not all be slower than all others by this share.
WARM_UP_SHARE, WARM_UP_INTERVALS, FEWEST_INTERVALS = 0.05, 3, 10


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
    "overrun": (
        False,
        "more than 1 % of the packets found a socket or a cpumap full: what empties it is the limit",
    ),
    "load_gap": (True, "for more than 10 % of the measure phase no packet came"),
    "slow_reading": (False, "the first or last reading of the measure phase took more than 0.1 % of its window"),
    "no_count": (True, "the counts of instructions are missing, or their sum is not what was counted in all"),
    "boots_differ": (False, "an earlier boot counted other instructions under test in the same window"),
    "not_returned": (True, "more than 0.1 % of the packets left the DUT, and the tester did not receive them"),
    "short_warmup": (False, "the rate still rose when the measure phase began: settle_s is too short"),
    "closure_unchecked": (False, "the counter table of this driver is made from its documentation, and never checked"),
    "pause_frames": (True, "a port sent or received pause frames, which hold back the load"),
    "settings_left": (True, "a setting of a port changed meanwhile, or is not as the first trial of the boot found it"),
    "foreign_irq": (False, "another device interrupted a CPU that handled packets more than 100 times a second"),
    "freq_unstable": (
        False,
        "a CPU that handled packets had a clock more than 0.5 % off the median of the case's trials",
    ),
    "pmu_multiplexed": (False, "events of the PMU were counted in turns, for a part of the time only"),
    "generator_bound": (False, "within 2 % of what the generator alone can do: the DUT may be faster than this"),
    "line_bound": (True, "within 3 % of what the wire carries: the DUT may be faster than this"),
    "pacing_off": (True, "the generator was more than 1 % off the rate that it was told to keep"),
    "search_quantised": (True, "the search ended more than 0.5 % below the lowest rate at which too much was lost"),
    "loop_stalled": (True, "a closed loop waited 100 ms for packets that did not return"),
    "lost_in_burst": (
        True,
        "the generator was held up, caught up with more packets than the DUT's ring holds, and no more were lost",
    ),
}
FLAGS = tuple(MEANINGS)


def trial_flags(trial: Trial, run: Run, limits: Limits | None = None) -> int:
    """The bit mask of all flags of a trial of this run, whose limits may be known."""
    params = run.cases[trial.key.case_id]
    closure = close_trial(trial, run)
    mask = find_flags(trial, params, closure, first=find_first(trial, run), others=run.trials)
    return mask | find_load_flags(trial, run, closure, find_limits(run) if limits is None else limits)


def run_flags(run: Run) -> dict[TrialKey, int]:
    """The same of all trials of a run."""
    limits = find_limits(run)
    return {trial.key: trial_flags(trial, run, limits) for trial in run.trials}


def find_load_flags(trial: Trial, run: Run, closure: Closure, limits: Limits) -> int:
    """The flags of a trial's load, which rest on other trials of the run."""
    return _mask(load_flags(trial, run, closure, limits))


def find_first(trial: Trial, run: Run) -> Trial | None:
    """The first boot's trial of the same window, which may be this one; None where nothing was counted."""
    key = trial.key
    same = (one for one in run.trials if (one.key.case_id, one.key.trial) == (key.case_id, key.trial) and one.profile)
    return next(same, None) if trial.profile else None


def find_flags(
    trial: Trial,
    params: Mapping[str, Any],
    closure: Closure,
    *,
    first: Trial | None = None,
    others: Sequence[Trial] = (),
) -> int:
    """The same, when the balance, the first boot's trial and those of the run are known."""
    timed = not is_counted(params)
    raised = {
        "failed": trial.status != "ok",
        "loss_open": closure.open,
        "counter_decreased": bool(closure.decreased) or has_decrease(trial.dut) or has_decrease(trial.tester),
        "mode_mismatch": bool(mode_mismatches(trial, params)),
        "closure_generic": closure.generic,
        "closure_unchecked": closure.unchecked and not closure.generic,
        "overrun": _count_overrun(trial, params, closure) > FOREIGN_SHARE * closure.accepted,
        "not_returned": closure.lost_on_the_way > LOST_SHARE * closure.accepted,
        "boots_differ": first is not None and _tested_rows(trial, params) != _tested_rows(first, params),
        "cpu_shared": timed and (_is_cpu_shared(trial.dut.delta(), params) or _has_ring_waited(trial)),
        **surrounding_flags(trial, params, others=others, timed=timed),
        **_program_flags(trial.dut, params),
        **(_sample_flags(trial, params) if timed else _window_flags(trial, params)),
    }
    return _mask(raised)


def _count_overrun(trial: Trial, params: Mapping[str, Any], closure: Closure) -> int:
    """Packets that found a queue full. What a cpumap without a program drops is not counted, only what its CPUs took.

    Those CPUs may have processed packets of others, too, so this is the least that was dropped.
    """
    if params.get("remote") != "none":
        return sum(n for name, n in closure.terms if name in QUEUES)
    delta = trial.dut.delta()
    taken = [delta.get(f"softnet.cpu{cpu}.processed") for cpu in set(params.get("cpus", {}).get("remotes", ()))]
    known = [packets for packets in taken if packets is not None]
    handed = sum_counters(delta, action_pattern("XDP_REDIRECT"))
    return max(0, handed - sum(known)) if known and len(known) == len(taken) else 0


def _mask(raised: Mapping[str, bool]) -> int:
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
    asked_and_got: list[tuple[str, Any, Any]] = []
    if params["attach_mode"]:
        asked_and_got += [
            ("attach_mode", params["attach_mode"], ready.get("attach", {}).get("attach_mode")),
            ("program at the end", ready.get("attach", {}).get("prog_id"), done.get("attach", {}).get("prog_id")),
        ]
    if params.get("bind_mode"):
        sockets = ready.get("xsk", ())
        asked_and_got += [(f"queue {s['queue_id']} bind_mode", params["bind_mode"], s["bind_mode"]) for s in sockets]
        asked_and_got.append(("a socket", True, bool(sockets) if "xsk" in ready else None))
    if params["generator"] not in ("auto", ""):
        got = trial.tester.ready.get("generator", {}).get("generator")
        asked_and_got.append(("generator", params["generator"], got))
    # A trial that ended well has said all of this, so silence is no proof of a mode; one that broke off may not have.
    return tuple(
        f"{what}: asked {asked}, got {got}"
        for what, asked, got in asked_and_got
        if asked != got and (trial.status == "ok" or None not in (asked, got))
    )


def _program_flags(stream: Stream, params: Mapping[str, Any]) -> dict[str, bool]:
    """What the counters of program and application tell over the whole trial."""
    delta, kind = stream.delta(), kind_of(params)
    program = kind.program or "xdp_prog"
    total = sum_counters(delta, action_pattern(r"\w+", program))
    wanted = sum_counters(delta, action_pattern("|".join([kind.action, *kind.also]), program))
    bound = "|".join({str(socket["queue_id"]) for socket in stream.ready.get("xsk", ())})
    on_bound = sum_counters(delta, rf"xdp_prog\.cpu\d+\.rxq({bound})\.\w+\.packets") if bound else 0
    return {
        "other_action": bool(kind.action) and total - wanted > FOREIGN_SHARE * total,
        "wrong_queue": bool(params.get("bind_mode")) and total - on_bound > FOREIGN_SHARE * total,
    }


def _is_cpu_shared(delta: Counters, params: Mapping[str, Any]) -> bool:
    """Whether a CPU that ran the program spent time in user space, where neither softirq nor live frames ever are.

    A generator of AF_PACKET and the loop of a socket are in user space by right; on their CPUs only stolen time counts.
    Time is in ticks of 10 ms as a rule, so a single one says nothing.
    """
    cpus = params.get("cpus", {})
    users = set(cpus.get("apps", ())) if kind_of(params).app else set()
    users |= set(cpus.get("generators", ())) if params["generator"] == "af-packet" else set()
    for cpu in {int(found[1]) for name in delta if delta[name] and (found := PROGRAM_CPU.match(name))}:
        ticks = {kind: delta.get(f"proc_stat.cpu{cpu}.{kind}", 0) for kind in TICKS}
        foreign = ticks["steal"] + (0 if cpu in users else ticks["user"] + ticks["nice"])
        if foreign > 1 and foreign > SHARED_CPU * sum(ticks.values()):
            return True
    return False


def _has_ring_waited(trial: Trial) -> bool:
    """Whether a thread of a ring, which never sleeps, was without a CPU in the measure phase."""
    samples = measured(trial.dut.samples)
    if len(samples) < 2:
        return False
    first, last = samples[0], samples[-1]
    ran_ns = (
        last.counters[name] - first.counters[name]
        for name in ("ring.producer_run_ns", "ring.consumer_run_ns")
        if name in first.counters and name in last.counters
    )
    return any(ns < (1 - SHARED_CPU) * (last.t0_ns - first.t1_ns) for ns in ran_ns)


def _tested_rows(trial: Trial, params: Mapping[str, Any]) -> list[ProfileRow]:
    rows = trial.profile.rows if trial.profile else ()
    return sorted(row for row in rows if row.side in tested_sides(params))


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
        "short_warmup": _rises_at_first(steps, times_ns),
        "slow_reading": rate is not None and rate.reading_ns > SLOW_READING * rate.window_ns,
    }


def _rises_at_first(steps: Sequence[int], times_ns: Sequence[int]) -> bool:
    """Whether each of some first intervals is slower than every later one; that a few are so by chance is rare."""
    rates = [step / ns for step, ns in zip(steps, times_ns, strict=True) if ns > 0]
    ends = (
        range(WARM_UP_INTERVALS, max(WARM_UP_INTERVALS, len(rates) // 4) + 1) if len(rates) >= FEWEST_INTERVALS else ()
    )
    return any(max(rates[:end]) < (1 - WARM_UP_SHARE) * min(rates[end:]) for end in ends)

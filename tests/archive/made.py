# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs made up for tests: always the same for the same arguments, and shaped like real ones."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from xdprepro.sample import (
    PROFILE_SIDES,
    Boot,
    Profile,
    ProfileRow,
    Reading,
    Run,
    Sample,
    Stream,
    Trial,
    TrialKey,
    format_profile,
)

FLAG_NAMES = ("loss_open", "generator_bound", "returned_none")
T_UTC_NS = 1_764_000_000_000_000_000
CASES: Mapping[str, Mapping[str, Any]] = {
    # In an order that is not that of the alphabet, as a suite's order is not.
    "xdp.tx.swap-macs.native.60B": {
        "case": "xdp.tx.swap-macs",
        "attach_mode": "native",
        "bind_mode": "",
        "frame_len": 60,
    },
    "xdp.drop.no-touch.native.60B": {
        "case": "xdp.drop.no-touch",
        "attach_mode": "native",
        "bind_mode": "",
        "frame_len": 60,
        "measure_s": 1.5,
        "cpus": {"sampler": 0, "app": 0, "generators": [1]},
    },
    "xsk.rxdrop.native.copy.60B": {"case": "xsk.rxdrop", "attach_mode": "native", "bind_mode": "copy", "frame_len": 60},
}
SKIPPED = {"xsk.rxdrop.native.zero-copy.60B": "DUT dut0 has no xsk zero-copy: bind: Operation not supported"}
FINGERPRINT: Mapping[str, Any] = {
    "host": {"host_key": "0123456789abcdef", "cpu_model": "Some CPU \u00b5", "cpus": 2, "hypervisor": True},
    "kernel": {"release": "6.12.1-test", "cmdline": "ro quiet", "mitigations": {"retbleed": "Not affected"}},
    "checkout": {"git_commit": "f" * 40, "dirty": False},
    "absent": {"host.microcode": "not in /proc/cpuinfo"},
}
DOCUMENTS = {"suite": 'title = "made"\n', "kernel_config": "CONFIG_BPF=y\n" * 500, "empty": "", "a/b": "\u00e4\n"}


def make_run(
    *,
    run_id: str = "01900000-0000-7000-8000-000000000001",
    boots: int = 2,
    trials: int = 2,
    samples: int = 4,
    cpus: tuple[int, ...] = (0, 3),
    created_utc_ns: int = T_UTC_NS,
    pps: Mapping[str, float] | None = None,
    **changes: Any,
) -> Run:
    """A complete run. `pps` gives a case its rate (default 1e6); `changes` replace fields of the Run."""
    rate = dict.fromkeys(CASES, 1000000.0) | dict(pps or {})
    slots = [(boot, trial, case_id) for boot in range(boots) for trial in range(trials) for case_id in sorted(CASES)]
    run = Run(
        run_id=run_id,
        plan_id="01900000-0000-7000-8000-0000000000ff",
        suite="made",
        lab="veth",
        lab_kind="veth",
        created_utc_ns=created_utc_ns,
        closed_utc_ns=created_utc_ns + 60_000_000_000,
        status="complete",
        restarts=boots,
        trials_per_restart=trials,
        design="single",
        fingerprint=FINGERPRINT,
        documents=DOCUMENTS,
        cases=CASES,
        skipped=SKIPPED,
        boots=tuple(
            Boot(boot, "restart", f"{boot:08x}-aaaa-bbbb-cccc-000000000000", "6.12.1-test", created_utc_ns + boot)
            for boot in range(boots)
        ),
        trials=tuple(
            _make_trial(TrialKey(case_id, boot, trial), slot, samples, cpus, rate[case_id], created_utc_ns)
            for slot, (boot, trial, case_id) in enumerate(slots)
        ),
    )
    return replace(run, **changes)


def _make_trial(
    key: TrialKey, slot: int, samples: int, cpus: tuple[int, ...], pps: float, created_utc_ns: int
) -> Trial:
    t0_ns = 10**12 + slot * 10**10
    action = {"xdp.tx": "XDP_TX", "xdp.dr": "XDP_DROP", "xsk.rx": "XDP_REDIRECT"}[key.case_id[:6]]
    step_ns = 50_000_000
    dut, tester = [], []
    for index in range(samples):
        phase = "settle" if index == 0 else "measure" if index < samples - 1 else "drain"
        at_ns = t0_ns + index * step_ns
        packets = 2**60 + int(pps * index * step_ns / 1e9)
        counters = {f"xdp_prog.cpu{cpu}.rxq{at}.{action}.packets": packets + cpu for at, cpu in enumerate(cpus)}
        counters |= {f"xdp_prog.cpu{cpu}.rxq{at}.{action}.bytes": 60 + index for at, cpu in enumerate(cpus)}
        if key.case_id.startswith("xsk"):
            counters |= {"xsk_app.q0.rx_packets": packets, "xsk_app.q0.empty_polls": 0}
        dut.append(Sample(phase, at_ns, at_ns + 900, counters))
        tester.append(
            Sample(phase, at_ns + 7, at_ns + 800, {"generator.cpu1.packets": packets, "generator.cpu1.errors": 0})
        )
    absent = {"ethtool": "Operation not supported"} if key.trial else {}
    ready = {"ready": True, "t_mono_raw_ns": t0_ns, "t_realtime_ns": created_utc_ns, "attach": _attach()}
    return Trial(
        key=key,
        slot=slot,
        t_utc_ns=created_utc_ns + slot * 10**9,
        status="ok",
        reason="",
        dut=Stream(
            ready, {"done": True, "attach": _attach()}, tuple(dut), _make_edges(t0_ns, 1 if key.trial else 2), absent
        ),
        tester=Stream(
            {"ready": True, "generator": {"cpus": [1]}}, {"done": True}, tuple(tester), _make_edges(t0_ns, 1)
        ),
    )


def _attach() -> dict[str, Any]:
    return {"ifname": "dut0", "attach_mode": "native", "prog_id": 7, "prog_tag": "a04f5eef06a7f555"}


def _make_edges(t0_ns: int, sources: int) -> dict[str, tuple[Reading, ...]]:
    start = (
        Reading("netdev", t0_ns - 9, t0_ns - 8, {"rx_packets": 5, "rx_bytes": 2**64 - 1}),
        Reading("ethtool", t0_ns - 7, t0_ns - 6, {"rx_queue_0_drops": 0}),
    )
    end = (Reading("netdev", t0_ns + 9, t0_ns + 10, {"rx_packets": 900, "rx_bytes": 2**64 - 1, "rx_nohandler": 0}),)
    return {"start": start[:sources], "end": end}


GUEST = {"cpu": "max", "accel": "count", "qemu": "10.0.2", "plugin_sha256": "9" * 64, "window": "to the last packet"}
LONG_NAME = "p" * 63 + "_\u00b5" + "n" * 43 + " [module_of_it]"  # 124 bytes
# Function and side -> instructions of a window, and of each packet in it.
COSTS: Mapping[tuple[str, str], tuple[int, int]] = {
    ("veth_poll [veth]", "receive"): (0, 11),
    ("veth_poll [veth]", "generator"): (7, 13),
    ("bpf_prog_a04f5eef06a7f555_xdp_drop", "receive"): (0, 41),
    (LONG_NAME, "app"): (5, 0),
    ("user", "rest"): (2**53 + 1, 0),
}


def make_profile(packets: int, *, memory: bool = False) -> Profile:
    """What a window with so many packets cost, by COSTS; each fourth instruction loads, each eighth stores."""
    counts = {name: once + each * packets for name, (once, each) in COSTS.items()}
    rows = [
        ProfileRow(*name, insn, *((insn // 4, insn // 8, 3) if memory else ()))
        for name, insn in sorted(counts.items())
        if insn
    ]
    return Profile(packets=packets, rows=tuple(rows), total_insn=sum(counts.values()))


def add_profiles(run: Run, case_id: str) -> Run:
    """The run as if guests had been counted: a short and a long window in each boot of that case, boot 1 for memory."""
    trials = [
        replace(trial, profile=make_profile(1000 * trial.key.trial, memory=trial.key.boot == 1))
        if trial.key.case_id == case_id
        else trial
        for trial in run.trials
    ]
    boots = [replace(boot, kind="boot", port="igb", cmdline=f"console=ttyS0 n={boot.index}") for boot in run.boots]
    fingerprint = {**run.fingerprint, "guest": GUEST}
    return replace(run, trials=tuple(trials), boots=tuple(boots), fingerprint=fingerprint, lab="vm", lab_kind="vm")


def make_flags(run: Run) -> dict[TrialKey, int]:
    """Flags for every trial of a run."""
    return {trial.key: trial.slot % 8 for trial in run.trials}


def make_random_run(seed: int) -> Run:
    """A run with holes of every kind: trials missing, failed, cut short, without samples or edges, odd names."""
    rng = random.Random(seed)
    run = make_run(
        boots=rng.randint(1, 3),
        trials=rng.randint(1, 3),
        samples=rng.randint(2, 6),
        cpus=tuple(rng.sample(range(99), 3)),
    )
    kept = [_damage(trial, rng) for trial in run.trials if rng.random() < 0.8]
    if rng.random() < 0.5:
        run = add_profiles(run, "xdp.drop.no-touch.native.60B")
        share = rng.choice((0.2, 1.0))
        kept = [replace(trial, profile=_random_profile(rng)) if rng.random() < share else trial for trial in kept]
    status = rng.choice(("complete", "partial", "failed"))
    documents = {name: text for name, text in run.documents.items() if rng.random() < 0.5}
    return replace(run, trials=tuple(kept), status=status, documents=documents)


def _damage(trial: Trial, rng: random.Random) -> Trial:
    if rng.random() < 0.2:
        return replace(
            trial, status="failed", reason="dut: \u00e9" * rng.choice((1, 100)), dut=Stream(), tester=Stream()
        )
    if rng.random() < 0.2:
        trial = replace(trial, status="interrupted", reason="the journal ends within this trial", tester=Stream())
    return replace(trial, dut=_damage_stream(trial.dut, rng), tester=_damage_stream(trial.tester, rng))


def _random_profile(rng: random.Random) -> Profile:
    """Any number of functions, some of no cost at all, in any order, perhaps with memory, counted up to 64 bits."""
    names = ("veth_poll", "xdp_do_redirect.cold", "a b [c]", "\u00e4" * 60, "f" * 120, "user")
    chosen = [(name, side) for name in names for side in PROFILE_SIDES if rng.random() < rng.choice((0.1, 0.6))]
    rng.shuffle(chosen)
    memory = rng.random() < 0.5
    top = 2**64 // (len(chosen) or 1) - 1
    counts = [[rng.choice((0, 0, 1, rng.randint(0, top))) for _ in range(4 if memory else 1)] for _ in chosen]
    rows = tuple(ProfileRow(*name, *row) for name, row in zip(chosen, counts, strict=True))
    return Profile(packets=rng.choice((0, 1, 2**63)), rows=rows, total_insn=sum(row.insn for row in rows))


def _damage_stream(said: Stream, rng: random.Random) -> Stream:
    samples = said.samples[: rng.randint(0, len(said.samples))]
    odd = {
        "perf.cpu01.cycles": 1,
        "xdp_prog.cpu007.rxq0.XDP_DROP.packets": 3,
        "xsk_app.q12.wakeups": 0,
        "xdp_prog.cpu4096.rxq63.XDP_ABORTED.packets": 2**64 - 1,
        "n" * 90: 5,
        "\u00b5": 6,
    }
    chosen = {key: value for key, value in odd.items() if rng.random() < 0.3}
    samples = tuple(replace(sample, counters={**sample.counters, **chosen}) for sample in samples)
    edges = {edge: readings for edge, readings in said.edges.items() if rng.random() < 0.7}
    if rng.random() < 0.3:
        edges["end"] = (Reading("softnet", 1, 2, {}), Reading("xdp_prog", 3, 4, {"cpu1.rxq0.XDP_DROP.packets": 2**63}))
    return replace(said, samples=samples, edges=edges, error=rng.choice(("", "dut0: attach: Device busy")))


def journal_records(run: Run) -> Iterator[dict[str, Any]]:
    """The records that a journal of this run has; one without end if the run is partial."""
    yield {
        "rec": "run",
        "t_utc_ns": run.created_utc_ns,
        **{name: getattr(run, name) for name in ("run_id", "plan_id", "suite", "lab", "lab_kind", "restarts")},
        **{name: getattr(run, name) for name in ("trials_per_restart", "design", "fingerprint", "documents", "cases")},
    }
    for case_id, reason in run.skipped.items():
        yield {"rec": "skip", "case_id": case_id, "reason": reason}
    for boot in run.boots:
        names = ("kind", "boot_id", "kernel_release", "t_utc_ns", "port", "cmdline")
        said = {name: getattr(boot, name) for name in names if getattr(boot, name)}
        yield {"rec": "boot", "boot": boot.index, **said}
    for trial in run.trials:
        yield {"rec": "trial", "slot": trial.slot, **trial.key._asdict(), "t_utc_ns": trial.t_utc_ns}
        for side, stream in (("dut", trial.dut), ("tester", trial.tester)):
            for message in _messages(stream):
                yield {"rec": "line", "slot": trial.slot, "side": side, "msg": message}
        if trial.profile:
            yield {"rec": "profile", "slot": trial.slot, "profile": format_profile(trial.profile)}
        yield {"rec": "trial_end", "slot": trial.slot, "status": trial.status, "reason": trial.reason}
    if run.status != "partial":
        yield {"rec": "end", "status": run.status, "t_utc_ns": run.closed_utc_ns}


def _messages(said: Stream) -> Iterator[dict[str, Any]]:
    absent = [{"source": source, "reason": reason} for source, reason in said.absent.items()]
    yield _edge(said, "start", absent)
    yield dict(said.ready)
    for index, sample in enumerate(said.samples):
        times = {"t0_ns": sample.t0_ns, "t1_ns": sample.t1_ns}
        yield {"sample": index, "phase": sample.phase, **times, "counters": dict(sample.counters)}
    yield _edge(said, "end", absent)
    yield dict(said.done)


def _edge(said: Stream, edge: str, absent: list[dict[str, str]]) -> dict[str, Any]:
    sources = [
        {"source": r.source, "t0_ns": r.t0_ns, "t1_ns": r.t1_ns, "counters": dict(r.counters)} for r in said.edges[edge]
    ]
    return {"edge": edge, "sources": sources, "absent": absent}

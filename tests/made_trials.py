# SPDX-License-Identifier: GPL-2.0-or-later
"""Trials and runs with known figures, built from the lines that agents would say."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from xdprepro.cases import Case
from xdprepro.sample import Boot, Run, Stream, Trial, TrialKey, parse_stream

INTERVAL_NS = 50_000_000
SAMPLES = 21  # the measure phase is one second
OUTSIDE = 12_345  # packets before and after the measure phase
BEFORE = 1000  # what every counter of the kernel and the driver shows at the start edge

RECORDS = ("xdp_prog", "xdp_remote", "tc_prog")  # of programs; they have no entry that is zero

Json = dict[str, Any]


def make_streams(
    case: Case,
    *,
    ns: float = 100.0,
    cores: int = 1,
    returned_share: float = 1.0,
    dut_end: Mapping[str, int] | None = None,
    tester_end: Mapping[str, int] | None = None,
) -> tuple[Stream, Stream]:
    """The streams of a trial at `ns` per packet and core; `*_end` adds to counters of the end edge (veth, native)."""
    steps = [round(k * INTERVAL_NS * cores / ns) for k in range(SAMPLES)]
    total = steps[-1] + OUTSIDE
    returned = round(total * returned_share)
    dut: Json = {"netdev": {"tx_dropped": 0}, "ethtool": {"rx_queue_0_drops": 0, "rx_queue_0_xdp_drops": 0}}
    tester: Json = {"netdev": {"tx_dropped": 0}, "xdp_prog": {}}
    if case.role != "transmit":
        tester["generator"] = {"cpu1.packets": total, "cpu1.errors": 0}
    for name, packets in _handled(case, total, cores).items():
        source, _, counter = name.partition(".")
        dut.setdefault(source, {})[counter] = packets
    if "pkt" in case.kind.app or "udp" in case.kind.app:
        dut[case.kind.app.removesuffix("_app")] = {"tp_drops": 0} if "pkt" in case.kind.app else {"drops": 0}
    if "xsk" in case.kind.groups:
        dut["xsk"] = {"q0.rx_dropped": 0, "q0.rx_ring_full": 0}
    if case.role in ("forward", "transmit"):
        copies = case.fanout or 1
        tester["xdp_prog"] = _spread("XDP_DROP", returned * copies, 1)
        dut["netdev"]["tx_dropped"] = (total - returned) * copies
    for edge, changes in ((dut, dut_end), (tester, tester_end)):
        for name, value in (changes or {}).items():
            source, _, counter = name.partition(".")
            counters = edge.setdefault(source, {})
            counters[counter] = counters.get(counter, 0) + value
    attach = {"ifname": "dut0", "attach_mode": case.attach_mode, "prog_id": 7}
    sockets = [{"queue_id": 0, "bind_mode": case.bind_mode}] if "xsk" in case.kind.groups else []
    dut_lines = [
        _edge("start", _earlier(dut)),
        {"ready": True, "attach": attach, "xsk": sockets},
        *(_sample(case, k, count, cores) for k, count in enumerate(steps)),
        _edge("end", _later(dut)),
        {"done": True, "attach": attach},
    ]
    generator = "live-frames" if case.generator == "auto" else case.generator
    tester_lines = [
        _edge("start", _earlier(tester)),
        {"ready": True, "generator": {"generator": generator}},
        _edge("end", _later(tester)),
        {"done": True},
    ]
    return parse_stream(dut_lines), parse_stream(tester_lines)


def _handled(case: Case, packets: int, cores: int) -> dict[str, int]:
    """The counters of the DUT after so many packets, of every part that has to do with them."""
    kind, counters = case.kind, dict[str, int]()
    if kind.program and kind.action:
        counters |= {f"{kind.program}.{key}": part for key, part in _spread(kind.action, packets, cores).items()}
    if case.remote not in ("", "none"):
        counters[f"xdp_remote.cpu0.XDP_{case.remote.upper()}.packets"] = packets
    if kind.role == "ring":
        counters |= {"ring.produced": packets, "ring.consumed": packets, "ring.errors": 0}
    elif kind.in_app:
        queue = "q0." if kind.uses_xsk else ""
        words = {"transmit": ("tx",), "forward": ("rx", "tx")}.get(kind.role, ("rx",))
        words += ("tx",) if ".local" in case.case else ()
        counters |= {f"{kind.app}.{queue}{word}_packets": packets for word in words}
        counters |= {"local_netdev.rx_packets": packets, "local_netdev.rx_dropped": 0} if ".local" in case.case else {}
    elif not kind.program:
        counters["netdev.rx_packets"] = packets
    return counters


def _earlier(edge: Json) -> Json:
    """The start edge: the program's records are only there once they are not zero."""
    return {source: {} if source in RECORDS else dict.fromkeys(counters, BEFORE) for source, counters in edge.items()}


def _later(edge: Json) -> Json:
    """The end edge, from how much each counter grew."""
    return {
        source: {name: grew + (0 if source in RECORDS else BEFORE) for name, grew in counters.items()}
        for source, counters in edge.items()
    }


def _spread(action: str, packets: int, cores: int) -> dict[str, int]:
    """The packets of one action, as even as they go over the CPUs, each with a queue of its own."""
    parts = [packets // cores + (cpu < packets % cores) for cpu in range(cores)]
    return {f"cpu{cpu}.rxq{cpu}.{action}.packets": part for cpu, part in enumerate(parts)}


def _sample(case: Case, index: int, packets: int, cores: int) -> Json:
    t1_ns = 10**9 + index * INTERVAL_NS
    counters = _handled(case, packets, cores)
    return {"sample": index, "phase": "measure", "t0_ns": t1_ns - 700, "t1_ns": t1_ns, "counters": counters}


def _edge(name: str, sources: Mapping[str, Mapping[str, int]]) -> Json:
    stamps = {"t0_ns": 1, "t1_ns": 2}
    return {"edge": name, "sources": [{"source": key, **stamps, "counters": dict(c)} for key, c in sources.items()]}


def make_trial(case: Case, *, boot: int = 0, trial: int = 0, status: str = "ok", **figures: Any) -> Trial:
    """One trial of a case."""
    dut, tester = make_streams(case, **figures)
    reason = "" if status == "ok" else f"it {status}"
    return Trial(TrialKey(case.id, boot, trial), 10 * boot + trial, 10**18, status, reason, dut, tester)


def make_fingerprint(**changes: Any) -> Json:
    """A fingerprint like that of a veth lab; `changes` are dotted keys with __ for the dot."""
    port = {
        "driver": "veth",
        "ifindex": 2,
        "mac": "02:00:00:00:00:01",
        "mtu": 1500,
        "channels": {"rx": 2},
        "rx_queues": 2,
    }
    flat: Json = {
        "host": {"host_key": "h1", "cpu_model": "CPU", "cpus": 2, "microcode": "0x1", "memory_bytes": 2**34},
        "kernel": {
            "release": "6.12.1",
            "boot_id": "b1",
            "cmdline": "BOOT_IMAGE=/vmlinuz-6.12.1 root=/dev/vda",
            "config_sha256": "c1",
            "mitigations": {"retbleed": "Mitigation: IBRS"},
        },
        "cpu": {"governor": "performance"},
        "dut": {"port": port},
        "tester": {"port": deepcopy(port)},
        "agent": {"built_from": {"libbpf": "1.1"}, "bpf": {"xdp_drop_no_touch": "aa"}},
        "tools": {"numpy": "2.0"},
        "checkout": {"git_commit": "abc", "dirty": False},
        "lab": {"name": "veth", "kind": "veth", "queues": 2, "mtu": 1500},
        "absent": {},
    }
    for dotted, value in changes.items():
        *path, last = dotted.split("__")
        branch = flat
        for name in path:
            branch = branch.setdefault(name, {})
        branch[last] = value
    return flat


def make_run(trials: Sequence[Trial], cases: Sequence[Case], *, run_id: str = "a", **changes: Any) -> Run:
    """A run of these trials; `changes` are fields of Run."""
    boots = sorted({trial.key.boot for trial in trials})
    fields: Json = {
        "run_id": run_id,
        "plan_id": "plan",
        "suite": "made",
        "lab": "veth",
        "lab_kind": "veth",
        "created_utc_ns": 10**18,
        "closed_utc_ns": 10**18 + 1,
        "status": "complete",
        "restarts": len(boots),
        "trials_per_restart": 1,
        "design": "interleaved",
        "fingerprint": make_fingerprint(),
        "documents": {},
        "cases": {case.id: case.params() for case in cases},
        "skipped": {},
        "boots": tuple(Boot(boot, "restart", "b1", "6.12.1", 10**18) for boot in boots),
        "trials": tuple(trials),
    }
    return Run(**fields | changes)


def make_case_run(case: Case, restart_ns: Sequence[float], **changes: Any) -> Run:
    """A run of one case with one trial a restart."""
    trials = [make_trial(case, boot=boot, ns=ns) for boot, ns in enumerate(restart_ns)]
    return make_run(trials, [case], **changes)

# SPDX-License-Identifier: GPL-2.0-or-later
"""Counted runs with known figures: profiles of a guest's windows, and the streams that go with them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from made_trials import OUTSIDE, Json, make_fingerprint, make_run, make_trial

from xdprepro.cases import Case
from xdprepro.sample import Boot, Profile, ProfileRow, Run, Trial

WINDOWS = (20_000, 60_000)
TIMES = ("settle_s", "measure_s", "interval_s")

# Instructions per packet by function and side. Of a kernel module, a part and a clone, as compilers name them.
INSN: Mapping[tuple[str, str], int] = {
    ("veth_poll [veth]", "receive"): 100,
    ("veth_xdp_rcv_one.constprop.0 [veth]", "receive"): 80,
    ("veth_xdp_rcv_one.constprop.0.cold [veth]", "receive"): 3,
    ("bpf:xdp_drop_no_tou (dut)", "receive"): 41,
    ("clear_page_erms", "receive"): 512,
    ("xdp_do_redirect", "generator"): 58,
    ("bpf:generate_live (tester)", "generator"): 70,
    ("tick_sched_timer", "rest"): 1,
}
FIGURE = 736  # the receive side of INSN

# What a send costs once: one more poll, and the call that sends.
ONCE: Mapping[tuple[str, str], int] = {("veth_poll [veth]", "receive"): 300, ("bpf_test_run", "generator"): 9000}


def make_profile(
    packets: int, costs: Mapping[tuple[str, str], float] = INSN, once: Mapping[tuple[str, str], int] = ONCE
) -> Profile:
    """What a window of so many packets counts; of functions by side."""
    insn = {key: round(costs.get(key, 0) * packets) + once.get(key, 0) for key in {**costs, **once}}
    rows = tuple(ProfileRow(*key, count) for key, count in insn.items())
    return Profile(packets, rows, sum(insn.values()))


def add_memory(profile: Profile) -> Profile:
    """The same as a memory pass has it: of ten instructions four load, two store, and one meets a new line."""
    rows = tuple(
        row._replace(loads=4 * row.insn // 10, stores=2 * row.insn // 10, lines=row.insn // 10) for row in profile.rows
    )
    return replace(profile, rows=rows)


def case_id(case: Case, port: str = "veth") -> str:
    """As the guests' lab spells it."""
    return f"{case.id}.port-{port}"


def make_window(
    case: Case, profile: Profile | None, *, boot: int = 0, number: int = 0, port: str = "veth", **figures: Any
) -> Trial:
    """One trial with the packets of its profile."""
    packets = profile.packets if profile else WINDOWS[number]
    trial = make_trial(case, boot=boot, trial=number, ns=1e9 / (packets - OUTSIDE), **figures)
    return replace(trial, key=trial.key._replace(case_id=case_id(case, port)), profile=profile)


def make_boot(case: Case, costs: Mapping[tuple[str, str], float] = INSN, **options: Any) -> list[Trial]:
    """The short and the long window of one boot."""
    once = options.pop("once", ONCE)
    return [
        make_window(case, make_profile(packets, costs, once), number=number, **options)
        for number, packets in enumerate(WINDOWS)
    ]


def make_guest_fingerprint(*ports: str, **changes: Any) -> Json:
    """A fingerprint like that of a run of guests; `changes` are dotted keys with __ for the dot."""
    base = make_fingerprint(lab__kind="vm", lab__name="vm", lab__queues=1)
    port = base.pop("dut")["port"]
    del base["tester"], base["cpu"]
    base["guest"] = {
        "cpu": "max",
        "machine": "q35",
        "memory_mib": 1024,
        "accel": "count",
        "qemu": "10.0.2",
        "plugin_sha256": "p1",
    }
    base["kernel"] |= {"cmdline": "", "compiler": "gcc 12", "image_sha256": "i1", "build_id": "d1", "version": "#1"}
    drivers = {"virtio-net": "virtio_net"}
    base["ports"] = {
        name: {side: {**port, "driver": drivers.get(name, name)} for side in ("dut", "tester")}
        for name in ports or ("veth",)
    }
    for dotted, value in changes.items():
        *path, last = dotted.split("__")
        branch = base
        for name in path:
            branch = branch[name]
        branch[last] = value
    return base


def make_counted_run(
    trials: Sequence[Trial], cases: Sequence[Case], *, port: str = "veth", run_id: str = "a", **changes: Any
) -> Run:
    """A run of these windows; `changes` are fields of Run."""
    params = {case_id(case, port): {**case.params(), "port": port, "packets": list(WINDOWS)} for case in cases}
    for one in params.values():
        for key in TIMES:
            del one[key]
    boots = sorted({trial.key.boot for trial in trials})
    fields: Json = {
        "lab": "vm",
        "lab_kind": "vm",
        "design": "single",
        "fingerprint": make_guest_fingerprint(port),
        "cases": params,
        "boots": tuple(Boot(boot, "boot", f"b{boot}", "6.12.1", 10**18, port, "") for boot in boots),
        "trials_per_restart": 2,
    }
    placed = [replace(trial, slot=slot) for slot, trial in enumerate(trials)]
    return replace(make_run(placed, cases, run_id=run_id), **fields | changes)

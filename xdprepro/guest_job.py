# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest is told to do, and what its lines say was done (docs/protocol.md, "The micro guest")."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from xdprepro import guest
from xdprepro.cases import Case
from xdprepro.lab import Lab
from xdprepro.specs import make_dut_spec, make_tester_spec, plan_cpus

# Packets of the windows of a counted case: one in which the kernel's allocators grow to what it takes, then the short
# and the long one. Those that wait for another task fit into its queue, so that none is lost until it has the CPU.
WINDOWS = (2048, 2048, 8192)
WAITING_WINDOWS = (512, 512, 1536)
QUIET_S = 3600.0  # between two samples of a counted trial, so that none falls into its window
ONLY_CPU = (0,)
# The JIT is what everybody runs; its addresses are what names a program.
SYSCTLS = {"net/core/bpf_jit_enable": "1", "net/core/bpf_jit_kallsyms": "1"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A case on a port of a guest."""

    case: Case
    port: str

    @property
    def id(self) -> str:
        """The case_id of the archive."""
        return f"{self.case.id}.port-{self.port}"


@dataclass(frozen=True, slots=True)
class Slot:
    """One trial of a job: `number` of its case; packets of a counted one."""

    cell: Cell
    number: int
    packets: int = 0


@dataclass(slots=True)
class Said:
    """What a guest said of one trial, `place` in its job."""

    slot: Slot
    place: int = -1
    lines: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    status: str = "interrupted"
    reason: str = "the guest ended within this trial"

    @property
    def ended(self) -> bool:
        """Whether the trial came to its end; else the guest ended within it."""
        return self.status != "interrupted"


@dataclass(frozen=True, slots=True)
class Report:
    """A guest's lines, sorted: itself, the probes of both ends, trials in order, skipped case_ids with reasons."""

    guest: Mapping[str, Any]
    probes: Mapping[str, Mapping[str, Any]]
    trials: tuple[Said, ...]
    skipped: Mapping[str, str]


def counted(case: Case) -> Case:
    """The case as a guest with one CPU can count it: an application that spins would keep the generator off it."""
    return replace(case, wakeup="poll", packet_wakeup="poll")


def plan_slots(cells: Iterable[Cell], *, counting: bool, trials: int = 1) -> tuple[Slot, ...]:
    """The trials of one boot, case by case: its windows, or as many measurements of a rate."""
    slots: list[Slot] = []
    for cell in cells:
        packets_of = windows_of(cell.case) if counting else (0,) * trials
        slots += [Slot(cell, n, packets) for n, packets in enumerate(packets_of)]
    return tuple(slots)


def windows_of(case: Case) -> tuple[int, ...]:
    """The packets of each window of a counted case."""
    waiting = case.has("remote") or (case.kind.in_app and case.role != "transmit")
    return WAITING_WINDOWS if waiting else WINDOWS


def make_job(lab: Lab, port: str, slots: Sequence[Slot]) -> dict[str, Any]:
    """The job of one boot; the place of a slot is its number there."""
    counting = any(slot.packets for slot in slots)
    return {
        "port": port,
        "ports": {host.role: {"ifname": host.ifname, "mac": host.mac} for host in (lab.dut, lab.tester)},
        "queues": lab.queues,
        "mtu": lab.mtu,
        "sysctls": SYSCTLS,
        "count": counting,
        "probe": True,
        "trials": [_make_trial(lab, port, number, slot) for number, slot in enumerate(slots)],
    }


def _make_trial(lab: Lab, port: str, number: int, slot: Slot) -> dict[str, Any]:
    case = slot.cell.case
    cpus = plan_cpus(ONLY_CPU, case)
    dut = make_dut_spec(lab, case, cpus, range(lab.queues))
    tester = make_tester_spec(lab, case, cpus)
    if slot.packets:
        sending = {"count": slot.packets, "window": number}
        quiet = {"interval_s": QUIET_S}
        never = {"settle_s": 0.0, "measure_s": QUIET_S, **quiet}
        sends = case.role == "transmit"
        dut |= never | (sending if sends else {})
        tester |= never if sends else quiet | sending
    return {"slot": number, "dut": dut, "tester": [tester | way for way in testers_for(case, port)]}


def testers_for(case: Case, port: str) -> tuple[dict[str, str], ...]:
    """Attach modes and generators to try; where the driver has no native XDP, skb mode counts what comes back."""
    modes = [mode for mode in ("native", "skb") if mode in ("skb", *guest.PORTS[port].attach_modes)]
    if case.role == "transmit":
        return tuple({"attach_mode": mode} for mode in modes)
    return tuple(
        {"attach_mode": mode, "generator": generator}
        for mode in modes
        for generator in generators_for(case, port)
        if mode == "native" or generator == "af-packet"
    )


def generators_for(case: Case, port: str) -> tuple[str, ...]:
    """The generators to try, the best first: live frames enter a port only where the receiving end has native XDP."""
    if case.generator != "auto":
        return (case.generator,)
    live = case.attach_mode == "native" and guest.PORTS[port].live_frames
    return ("live-frames", "af-packet") if live else ("af-packet",)


def read_report(lines: Iterable[Mapping[str, Any]], slots: Sequence[Slot]) -> Report:
    """What a guest said; of a guest that ended early, what came."""
    about: Mapping[str, Any] = {}
    probes: dict[str, Mapping[str, Any]] = {}
    trials: dict[int, Said] = {}
    skipped: dict[str, str] = {}
    for line in lines:
        if "guest" in line:
            about = line["guest"]
        elif "probe" in line:
            probes[line["probe"]] = line["msg"]
        elif "trial" in line:
            trials[line["trial"]] = Said(slots[line["trial"]], line["trial"])
        elif "slot" in line:
            trials[line["slot"]].lines.append((line["side"], line["msg"]))
        elif "trial_end" in line:
            said = trials[line["trial_end"]]
            said.status, said.reason = line["status"], line["reason"]
        elif "trial_skip" in line:
            skipped[slots[line["trial_skip"]].cell.id] = line["reason"]
    return Report(about, probes, tuple(trials.values()), skipped)


def case_params(cell: Cell, *, counting: bool) -> dict[str, Any]:
    """The parameters of a cell as they are stored, without times where nothing is timed.

    The generator is what was asked for; which one an `auto` came to stands in each trial.
    """
    params = cell.case.params() | {"port": cell.port, "cpus": asdict(plan_cpus(ONLY_CPU, cell.case))}
    if counting:
        for key in ("settle_s", "measure_s", "interval_s"):
            del params[key]
        params["packets"] = list(windows_of(cell.case))
    return params

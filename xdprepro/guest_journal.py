# SPDX-License-Identifier: GPL-2.0-or-later
"""The journal of a run in guests, from what their boots left (archive/README.md, "The journal")."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdprepro import fingerprint, guest
from xdprepro.bench import ROOT
from xdprepro.guest_job import Cell, Report, Said, case_params, plan_slots
from xdprepro.kernel import Kernel
from xdprepro.lab import Lab
from xdprepro.sample import Profile, format_profile, parse_stream
from xdprepro.suite import Suite
from xdprepro.trial import read_agent_version


@dataclass(frozen=True, slots=True)
class Variant:
    """What one sealed run is about: a kernel, and how it is booted."""

    kernel: Kernel
    cmdline: str
    cpu: str

    @property
    def label(self) -> str:
        """How progress and tables name it."""
        return " ".join(word for word in (self.kernel.release, self.cmdline, self.cpu) if word)


@dataclass(frozen=True, slots=True)
class Setup:
    """How all variants are measured. `accel` is `count` for instructions, else rates are measured: `trials` a boot."""

    ports: tuple[str, ...]
    repeat: int = 1
    accel: str = "count"
    memory_pass: bool = False
    jobs: int = 1
    trials: int = 1

    @property
    def counting(self) -> bool:
        """Whether instructions are counted."""
        return self.accel == "count"


@dataclass(frozen=True, slots=True)
class Booted:
    """One boot of a guest on a port, and what it said; profiles by the slot's place in its job."""

    port: str
    t_utc_ns: int
    boot: guest.Boot
    report: Report
    profiles: Mapping[int, Profile]


def make_records(
    lab: Lab,
    suite: Suite,
    variant: Variant,
    setup: Setup,
    cells: Sequence[Cell],
    booted: Sequence[Booted],
    skipped: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    """The journal of a variant without its ids and its end (archive/README.md, "The journal")."""
    tried = {said.slot.cell.id for one in booted for said in one.report.trials}
    skipped = {**skipped, **{key: why for one in booted for key, why in one.report.skipped.items() if key not in tried}}
    used = _generators_used(booted)
    yield {
        "rec": "run",
        "suite": suite.name,
        "lab": lab.name,
        "lab_kind": lab.kind,
        "t_utc_ns": min(one.t_utc_ns for one in booted),
        "restarts": setup.repeat,
        "trials_per_restart": len(plan_slots(cells[:1], counting=setup.counting, trials=setup.trials)),
        "design": "single",
        "fingerprint": _fingerprint(lab, variant, setup, booted),
        "documents": _documents(suite, variant, booted),
        "cases": {
            cell.id: case_params(cell, counting=setup.counting, generator=used.get(cell.id, cell.case.generator))
            for cell in cells
            if cell.id not in skipped
        },
    }
    for case_id, reason in skipped.items():
        yield {"rec": "skip", "case_id": case_id, "reason": reason}
    number = 0
    for index, one in enumerate(booted):
        yield _boot_record(index, one, variant)
        for said in one.report.trials:
            yield from _trial_records(number, index, one, said)
            number += 1


def _generators_used(booted: Sequence[Booted]) -> dict[str, str]:
    """What the tester's agents say they used, by case_id."""
    used = {}
    for one in booted:
        for said in one.report.trials:
            ready = parse_stream(message for side, message in said.lines if side == "tester").ready
            if generator := ready.get("generator", {}).get("generator"):
                used[said.slot.cell.id] = generator
    return used


def _boot_record(index: int, one: Booted, variant: Variant) -> dict[str, Any]:
    said = one.report.guest
    return {
        "rec": "boot",
        "boot": index,
        "kind": "boot",
        "boot_id": said.get("boot_id", ""),
        "kernel_release": said.get("release", variant.kernel.release),
        "t_utc_ns": one.t_utc_ns,
        "port": one.port,
        "cmdline": said.get("cmdline", variant.cmdline),
    }


def _trial_records(number: int, boot: int, one: Booted, said: Said) -> Iterator[dict[str, Any]]:
    profile = one.profiles.get(said.place)
    slot = said.slot
    place = {"case_id": slot.cell.id, "boot": boot, "trial": slot.number}
    yield {"rec": "trial", "slot": number, **place, "t_utc_ns": one.t_utc_ns}
    for side, message in said.lines:
        yield {"rec": "line", "slot": number, "side": side, "msg": message}
    if profile is not None:
        yield {"rec": "profile", "slot": number, "profile": format_profile(profile)}
    status, reason = said.status, said.reason
    if slot.packets and status == "ok" and profile is None:
        status, reason = "failed", "the plugin wrote no whole window for this trial"
    yield {"rec": "trial_end", "slot": number, "status": status, "reason": reason}


def _fingerprint(lab: Lab, variant: Variant, setup: Setup, booted: Sequence[Booted]) -> dict[str, Any]:
    one = booted[0]
    kernel = variant.kernel
    return fingerprint.read_guest_fingerprint(
        kernel={
            "spec": kernel.spec,
            "key": kernel.key,
            "release": kernel.release,
            "image_sha256": kernel.image_sha256,
            "compiler": kernel.compiler or "",
            "cmdline": one.report.guest.get("cmdline", variant.cmdline),
        },
        said=one.report.guest,
        guest={
            "machine": one.boot.argv[one.boot.argv.index("-M") + 1],
            "cpu": variant.cpu,
            "cmdline": variant.cmdline,
            "memory_mib": lab.memory_mib,
            "accel": setup.accel,
            "qemu": one.boot.qemu_version,
            "plugin_sha256": one.boot.plugin_sha256 or "",
            "window": "markers" if setup.counting else "",
        },
        ports={one.port: dict(one.report.probes) for one in booted},
        agent=read_agent_version(),
        lab={"name": lab.name, "kind": lab.kind, "queues": lab.queues, "mtu": lab.mtu},
        config=kernel.config.read_text() if kernel.config else "",
        root=ROOT,
    )


def _documents(suite: Suite, variant: Variant, booted: Sequence[Booted]) -> dict[str, str]:
    config = variant.kernel.config
    documents = {"suite": suite.text} | ({"kernel_config": config.read_text()} if config else {})
    for index, one in enumerate(booted):
        documents[f"console.boot{index}"] = one.boot.console
        documents[f"qemu.boot{index}"] = "\n".join(one.boot.argv)
    return documents

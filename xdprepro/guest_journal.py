# SPDX-License-Identifier: GPL-2.0-or-later
"""The journal of a run in guests, from what their boots left (archive/README.md, "The journal")."""

from collections.abc import Iterator, Sequence
from typing import Any

from xdprepro import fingerprint
from xdprepro.guest_boots import Booted, Setup, Variant
from xdprepro.guest_job import Cell, Said, case_params, plan_slots
from xdprepro.lab import Lab
from xdprepro.sample import format_profile
from xdprepro.session import ROOT
from xdprepro.suite import Suite
from xdprepro.trial import read_agent_version


def make_head(
    lab: Lab, suite: Suite, variant: Variant, setup: Setup, cells: Sequence[Cell], first: Booted
) -> dict[str, Any]:
    """The first record, without its ids, once the first guest has said what it is."""
    config = variant.kernel.config.read_text() if variant.kernel.config else ""
    return {
        "rec": "run",
        "suite": suite.name,
        "lab": lab.name,
        "lab_kind": lab.kind,
        "t_utc_ns": first.t_utc_ns,
        "restarts": setup.repeat,
        "trials_per_restart": len(plan_slots(cells[:1], counting=setup.counting, trials=setup.trials)),
        "design": "single",
        "fingerprint": _fingerprint(lab, variant, setup, first, config),
        "documents": {"suite": suite.text} | ({"kernel_config": config} if config else {}),
        "cases": {cell.id: case_params(cell, counting=setup.counting) for cell in cells},
    }


def make_boot_records(one: Booted, variant: Variant, *, boot: int, slot: int) -> Iterator[dict[str, Any]]:
    """A boot, what its guest is, and its trials, the first of which has this slot."""
    said = one.report.guest
    yield {
        "rec": "boot",
        "boot": boot,
        "kind": "boot",
        "boot_id": said.get("boot_id", ""),
        "kernel_release": said.get("release", variant.kernel.release),
        "t_utc_ns": one.t_utc_ns,
        "port": one.port,
        "cmdline": said.get("cmdline", variant.cmdline),
    }
    yield {"rec": "document", "name": f"console.boot{boot}", "text": one.boot.console}
    yield {"rec": "document", "name": f"qemu.boot{boot}", "text": "\n".join(one.boot.argv)}
    if facts := _facts(one):
        yield {"rec": "fingerprint", "add": facts}
    for case_id, reason in one.report.skipped.items():
        yield {"rec": "skip", "case_id": case_id, "reason": reason}
    for number, trial in enumerate(one.report.trials, slot):
        yield from _trial_records(number, boot, one, trial)


def _facts(one: Booted) -> dict[str, Any]:
    """What only this guest could say; a guest that ended early said less, and takes nothing from another one."""
    kernel, guest = fingerprint.split_guest_facts(one.report.guest)
    facts = {"kernel": kernel, "guest": guest, "ports": {one.port: one.report.probes} if one.report.probes else {}}
    return {section: values for section, values in facts.items() if values}


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


def _fingerprint(lab: Lab, variant: Variant, setup: Setup, first: Booted, config: str) -> dict[str, Any]:
    """What is known without asking a guest; what guests say is added boot by boot."""
    kernel = variant.kernel
    return fingerprint.read_guest_fingerprint(
        kernel={
            "spec": kernel.spec,
            "key": kernel.key,
            "release": kernel.release,
            "image_sha256": kernel.image_sha256,
            "compiler": kernel.compiler or "",
            "cmdline": variant.cmdline,
        },
        guest={
            "machine": first.boot.argv[first.boot.argv.index("-M") + 1],
            "cpu": variant.cpu,
            "cmdline": variant.cmdline,
            "memory_mib": lab.memory_mib,
            "accel": setup.accel,
            "qemu": first.boot.qemu_version,
            "plugin_sha256": first.boot.plugin_sha256 or "",
            "window": "markers" if setup.counting else "",
        },
        said=first.report.guest,
        agent=read_agent_version(),
        lab={"name": lab.name, "kind": lab.kind, "queues": lab.queues, "mtu": lab.mtu},
        config=config,
        root=ROOT,
    )

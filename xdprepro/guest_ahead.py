# SPDX-License-Identifier: GPL-2.0-or-later
"""What a kernel can do with a port, asked in a guest that measures nothing; and which cases cannot run there."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from xdprepro import guest
from xdprepro.cases import Case
from xdprepro.errors import XdpreproError
from xdprepro.guest_boots import START_S, Variant
from xdprepro.guest_job import make_job, testers_for
from xdprepro.lab import Lab
from xdprepro.needs import find_missing
from xdprepro.suite import Suite
from xdprepro.working_set import resolve_lines

Probes = Mapping[str, Mapping[str, Any]]


def probe_guest(lab: Lab, variant: Variant, port: str, suite: Suite, *, accel: str, place: Path) -> Probes:
    """The probes of both ends, by role."""
    machine = guest.Machine(port=port, accel=accel, cpu=variant.cpu, memory_mib=lab.memory_mib, cmdline=variant.cmdline)
    cases = {case.case for case in suite.cases}
    job = make_job(lab, port, [])
    boot = guest.boot(variant.kernel, machine, job, directory=place, deadline_s=START_S, cases=cases)
    probes = {line["probe"]: line["msg"] for line in boot.lines if "probe" in line}
    if boot.failure or len(probes) < len(("dut", "tester")):
        why = boot.failure.message if boot.failure else "the guest did not say what its ports can do"
        raise XdpreproError(f"{variant.label}: {port}: {why}")
    return probes


def find_guest_missing(case: Case, port: str, probes: Probes) -> str:
    """Why a case cannot run in that guest, or nothing: one way for the tester is enough."""
    dut, tester = probes["dut"], probes["tester"]
    reasons = [
        find_missing(resolve_lines(replace(case, generator=way.get("generator", "")), dut), dut, _attached(tester, way))
        for way in testers_for(case, port)
    ] or [find_missing(case, dut, tester)]
    return reasons[-1] if all(reasons) else ""


def _attached(tester: Mapping[str, Any], way: Mapping[str, str]) -> Mapping[str, Any]:
    """The tester, of whose modes the one is asked for that this way has."""
    can = tester["can"]
    return {**tester, "can": {**can, "xdp_native": can[f"xdp_{way['attach_mode']}"]}}

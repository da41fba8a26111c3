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
from xdprepro.needs import find_guest_refusal, find_missing
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
    """Why a case cannot run in that guest, or nothing."""
    chosen, tester = choose_way(case, port, probes)
    return find_guest_refusal(case) or find_missing(chosen, probes["dut"], tester)


def choose_way(case: Case, port: str, probes: Probes) -> tuple[Case, Mapping[str, Any]]:
    """The case as that guest would run it, with the tester's probe that goes with it: one way is enough.

    Of the tester's modes, the probe is to be asked for the native one, in whichever it attaches.
    """
    resolved = resolve_lines(case, probes["dut"])
    ways = [
        (replace(resolved, generator=way.get("generator", "")), _attached(probes["tester"], way["attach_mode"]))
        for way in testers_for(case, port)
    ]
    good = (way for way in ways if not find_missing(way[0], probes["dut"], way[1]))
    return next(good, ways[-1] if ways else (resolved, probes["tester"]))


def _attached(tester: Mapping[str, Any], mode: str) -> Mapping[str, Any]:
    return {**tester, "can": {**tester["can"], "xdp_native": tester["can"][f"xdp_{mode}"]}}

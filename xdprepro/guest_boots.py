# SPDX-License-Identifier: GPL-2.0-or-later
"""The boots of one kernel with one port, until every case was tried."""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xdprepro import guest
from xdprepro.guest_job import Cell, Report, Said, Slot, make_job, plan_slots, read_report
from xdprepro.kernel import Kernel
from xdprepro.lab import Lab
from xdprepro.sample import Profile

START_S = 60.0  # from QEMU's start to the first trial, on a slow machine; each trial has its own time on top
TRIAL_S = 20.0
CONSOLE_LINES = 3  # of a guest that failed, in the reason; the archive has them all


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


def measure_port(
    lab: Lab, variant: Variant, setup: Setup, cells: Sequence[Cell], place: Path, aborted: Callable[[], bool]
) -> list[Booted]:
    """One boot; one more for the cases that a guest's end left over, as long as each gets further."""
    booted: list[Booted] = []
    pending = list(cells)
    while pending and not aborted():
        slots = plan_slots(pending, counting=setup.counting, trials=setup.trials)
        one = _boot(lab, variant, setup, slots, place / str(len(booted)), aborted)
        begun = {said.slot.cell.id for said in one.report.trials} | one.report.skipped.keys()
        pending = [cell for cell in pending if cell.id not in begun]
        if pending and (not begun or not one.boot.failure):
            one = _give_up(one, [slot for slot in slots if slot.cell in pending])
            pending = []
        booted.append(one)
    return booted


def _give_up(one: Booted, slots: Sequence[Slot]) -> Booted:
    """A boot in which none of these trials was begun: they have failed with what ended it."""
    reason = _why(one.boot.failure) if one.boot.failure else "the guest ended without it"
    lost = tuple(Said(slot, status="failed", reason=reason) for slot in slots)
    return replace(one, report=replace(one.report, trials=one.report.trials + lost))


def _boot(
    lab: Lab, variant: Variant, setup: Setup, slots: Sequence[Slot], place: Path, aborted: Callable[[], bool]
) -> Booted:
    port = slots[0].cell.port
    machine = guest.Machine(
        port=port,
        accel=setup.accel,
        cpu=variant.cpu,
        memory_mib=lab.memory_mib,
        cmdline=variant.cmdline,
        memory_pass=setup.memory_pass,
    )
    place.mkdir(parents=True)
    begin_utc_ns = time.time_ns()
    deadline_s = START_S + sum(TRIAL_S + _timed_s(slot) for slot in slots)
    job = make_job(lab, port, slots)
    boot = guest.boot(variant.kernel, machine, job, directory=place, deadline_s=deadline_s, aborted=aborted)
    report = _explain_end(read_report(boot.lines, slots), boot)
    counted = guest.read_counted(boot) if setup.counting else guest.Counted({}, {})
    # Nobody reads these again, and they may lie in memory.
    shutil.rmtree(place)
    return Booted(port, begin_utc_ns, boot, _fail_uncounted(report, counted.faults), counted.profiles)


def _fail_uncounted(report: Report, faults: Mapping[int, str]) -> Report:
    """A trial that went well, and whose count cannot be believed, has failed with the reason."""
    trials = tuple(
        replace(said, status="failed", reason=faults[said.place])
        if said.status == "ok" and said.place in faults
        else said
        for said in report.trials
    )
    return replace(report, trials=trials)


def _why(failure: guest.Failure) -> str:
    """The kind, what happened, and what the console showed last where that says more."""
    last = [line.strip() for line in failure.console_tail.splitlines() if line.strip()][-CONSOLE_LINES:]
    told = failure.kind == "guest_error" or not last
    return f"{failure.kind}: {failure.message}" + ("" if told else f"; console: {' | '.join(last)}")


def _timed_s(slot: Slot) -> float:
    return 0.0 if slot.packets else slot.cell.case.settle_s + slot.cell.case.measure_s


def _explain_end(report: Report, boot: guest.Boot) -> Report:
    """The trial in which the guest ended has failed with it."""
    if not boot.failure:
        return report
    trials = tuple(
        said if said.ended else replace(said, status="failed", reason=_why(boot.failure)) for said in report.trials
    )
    return replace(report, trials=trials)

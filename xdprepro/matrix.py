# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a suite in guests: kernels x command lines x CPU models x ports, each kernel and setting sealed as one run.

Guests do not disturb each other's counts, so several are booted at once.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

from xdprepro import archive, guest
from xdprepro.bench import Outcome, Progress, seal_journal
from xdprepro.errors import STORAGE, UNAVAILABLE, XdpreproError
from xdprepro.guest_job import Cell, Report, Said, Slot, counted, make_job, plan_slots, read_report
from xdprepro.guest_journal import Booted, Setup, Variant, make_records
from xdprepro.lab import Lab
from xdprepro.suite import Suite

BOOT_S = 25.0  # one boot with its trials: a first guess, for the time left
START_S = 60.0  # from QEMU's start to the first trial, on a slow machine; each trial has its own time on top
TRIAL_S = 20.0
CONSOLE_LINES = 3  # of a guest that failed, in the reason; the archive has them all


@dataclass(slots=True)
class _Work:
    """What is done of a variant."""

    variant: Variant
    boots_left: int
    run_id: str = field(default_factory=archive.make_run_id)  # made in the order of the variants, as ids sort by time
    booted: list[Booted] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


def run_matrix(
    lab: Lab,
    suite: Suite,
    variants: Sequence[Variant],
    setup: Setup,
    directory: Path,
    *,
    tell: Callable[[Progress], None],
    stopped: Callable[[], bool],
) -> list[Outcome]:
    """Boot and measure every variant; seal its run as soon as its last boot ended.

    A case that fails or takes its guest down does not end the others: the guest is booted again for them. After a stop
    no guest is started any more, and a variant with a boot missing is sealed as partial.
    """
    matrix = _Matrix(lab, suite, variants, setup, directory, tell)
    with tempfile.TemporaryDirectory(prefix="xdprepro-") as scratch, ThreadPoolExecutor(setup.jobs) as pool:
        try:
            matrix.measure(pool, Path(scratch), stopped)
        except KeyboardInterrupt:
            tell(matrix.progress("interrupted"))
        except XdpreproError as error:
            # A full disk takes no sealed file either.
            if error.status != STORAGE:
                matrix.outcomes()
            raise
        finally:
            matrix.aborted.set()  # of guests that still run, nobody wants to know any more
    return matrix.outcomes()


class _Matrix:
    """The boots of one command: what is to do, what runs, and what came out."""

    def __init__(
        self,
        lab: Lab,
        suite: Suite,
        variants: Sequence[Variant],
        setup: Setup,
        directory: Path,
        tell: Callable[[Progress], None],
    ) -> None:
        self.lab, self.suite, self.setup, self.directory, self.tell = lab, suite, setup, directory, tell
        self.cells = {port: _cells(suite, port, counting=setup.counting) for port in setup.ports}
        self.works = [_Work(variant, len(setup.ports) * setup.repeat) for variant in variants]
        self.total = sum(work.boots_left for work in self.works)
        self.done = 0
        self.sealed: dict[int, Outcome] = {}
        self.plan_id = archive.make_run_id()
        self.aborted = threading.Event()
        self.begin_s = time.monotonic()

    def measure(self, pool: ThreadPoolExecutor, scratch: Path, stopped: Callable[[], bool]) -> None:
        """All boots, as many at once as asked for."""
        todo = [(work, port) for work in self.works for _ in range(self.setup.repeat) for port in self.setup.ports]
        running: dict[Future[list[Booted]], tuple[_Work, str]] = {}
        while running or (todo and not stopped()):
            while todo and len(running) < self.setup.jobs and not stopped():
                work, port = todo.pop(0)
                self.tell(self.progress(f"{work.variant.label}: {port}"))
                place = scratch / str(len(todo))
                future = pool.submit(self.boot, work.variant, port, place)
                running[future] = work, port
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                self.take(*running.pop(future), future)

    def boot(self, variant: Variant, port: str, place: Path) -> list[Booted]:
        """The boots of a variant with a port."""
        return _measure_port(self.lab, variant, self.setup, self.cells[port], place, self.aborted.is_set)

    def take(self, work: _Work, port: str, future: Future[list[Booted]]) -> None:
        """What came out of a port's boots; the run is sealed with the last of them."""
        self.done += 1
        work.boots_left -= 1
        try:
            booted = future.result()
        except XdpreproError as error:
            if error.status != UNAVAILABLE:
                raise
            work.skipped |= {cell.id: error.message for cell in self.cells[port]}
            self.tell(self.progress(port, problem=f"skipped {work.variant.label}: {port}: {error.message}"))
        else:
            work.booted += booted
            for problem in _problems(booted):
                self.tell(self.progress(port, problem=f"{work.variant.label}: {port}: {problem}"))
        if not work.boots_left:
            self.seal(work)

    def seal(self, work: _Work) -> None:
        """Journal and seal what was measured of a variant; one that could not even boot has no run."""
        if not work.booted:
            return
        cells = [cell for port in self.setup.ports for cell in self.cells[port]]
        records = iter(make_records(self.lab, self.suite, work.variant, self.setup, cells, work.booted, work.skipped))
        head = next(records) | {"plan_id": self.plan_id, "run_id": work.run_id}
        with archive.Journal(self.directory, head) as journal:
            for record in records:
                journal.append(record)
            status = _status(work)
            journal.append({"rec": "end", "status": status, "t_utc_ns": time.time_ns()})
            journal.sync()
            self.sealed[id(work)] = seal_journal(journal.path)

    def outcomes(self) -> list[Outcome]:
        """The sealed runs, in the order of the variants; what a stop left unfinished is sealed now."""
        for work in self.works:
            if work.boots_left:
                self.seal(work)
        return [self.sealed[id(work)] for work in self.works if id(work) in self.sealed]

    def progress(self, what: str, *, problem: str = "") -> Progress:
        """Where it stands now."""
        took_s = time.monotonic() - self.begin_s
        boot_s = took_s / self.done if self.done else BOOT_S / self.setup.jobs
        return Progress(self.done, self.total, (self.total - self.done) * boot_s, what, problem)


def _cells(suite: Suite, port: str, *, counting: bool) -> list[Cell]:
    return [Cell(counted(case) if counting else case, port) for case in suite.cases]


def _status(work: _Work) -> str:
    trials = [said for booted in work.booted for said in booted.report.trials]
    if not any(said.status == "ok" for said in trials):
        return "failed"
    return "partial" if work.boots_left else "complete"


def _problems(booted: Sequence[Booted]) -> Iterator[str]:
    for one in booted:
        yield from (f"skipped {case_id}: {reason}" for case_id, reason in one.report.skipped.items())
        failed = {said.slot.cell.id: said.reason for said in one.report.trials if said.status != "ok"}
        yield from (f"failed {case_id}: {reason}" for case_id, reason in failed.items())


def _measure_port(
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
    lost = tuple(Said(slot, ended=True, status="failed", reason=reason) for slot in slots)
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
    return Booted(port, begin_utc_ns, boot, report, guest.read_profiles(boot) if setup.counting else {})


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
        said if said.ended else replace(said, ended=True, status="failed", reason=_why(boot.failure))
        for said in report.trials
    )
    return replace(report, trials=trials)

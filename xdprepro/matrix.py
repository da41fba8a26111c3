# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a suite in guests: kernels x command lines x CPU models x ports, each kernel and setting sealed as one run.

Guests do not disturb each other's counts, so several are booted at once.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from xdprepro import archive
from xdprepro.bench import Outcome, seal_journal
from xdprepro.duration import boots_s
from xdprepro.errors import STORAGE, UNAVAILABLE, XdpreproError
from xdprepro.guest_boots import Booted, Setup, Variant, measure_port
from xdprepro.guest_job import Cell, counted
from xdprepro.guest_journal import make_boot_records, make_head
from xdprepro.lab import Lab
from xdprepro.needs import find_guest_refusal
from xdprepro.sample import say_skipped
from xdprepro.scratch import start_scratch
from xdprepro.session import Progress
from xdprepro.suite import Suite


@dataclass(slots=True)
class _Work:
    """A variant, and what is in its journal so far."""

    variant: Variant
    ports_left: int
    run_id: str = field(default_factory=archive.make_run_id)  # made in the order of the variants, as ids sort by time
    journal: archive.Journal | None = None
    boots: int = 0
    slots: int = 0
    good: int = 0
    skipped: dict[str, str] = field(default_factory=dict)
    outcome: Outcome | None = None


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
    with (
        start_scratch() as scratch,
        ExitStack() as journals,
        ThreadPoolExecutor(setup.jobs) as pool,
    ):
        matrix = _Matrix(lab, suite, variants, setup, directory, tell, journals)
        try:
            matrix.measure(pool, scratch, stopped)
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
        journals: ExitStack,
    ) -> None:
        self.lab, self.suite, self.setup, self.directory, self.tell = lab, suite, setup, directory, tell
        self.cells = {port: _cells(suite, port, counting=setup.counting) for port in setup.ports}
        refused = {cell.id: reason for port in setup.ports for cell, reason in _refused(suite, port)}
        if not any(self.cells.values()):
            reason = next(iter(refused.values()))
            raise XdpreproError(f"suite {suite.name}: no case can run in a guest: {reason}", status=UNAVAILABLE)
        self.works = [_Work(variant, len(setup.ports) * setup.repeat, skipped=dict(refused)) for variant in variants]
        self.total = sum(work.ports_left for work in self.works)
        self.done = 0
        self.journals = journals
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
        return measure_port(self.lab, variant, self.setup, self.cells[port], place, self.aborted.is_set)

    def take(self, work: _Work, port: str, future: Future[list[Booted]]) -> None:
        """Journal what came out of a port's boots; the run is sealed with the last of them."""
        self.done += 1
        work.ports_left -= 1
        try:
            for one in future.result():
                self.keep(work, one)
        except XdpreproError as error:
            if error.status != UNAVAILABLE:
                raise
            work.skipped |= {cell.id: error.message for cell in self.cells[port]}
            self.tell(self.progress(port, problem=f"skipped {work.variant.label}: {port}: {error.message}"))
        if not work.ports_left:
            self.seal(work)

    def keep(self, work: _Work, one: Booted) -> None:
        """Journal a boot, so that a crash loses none that is over."""
        if work.journal is None:
            cells = [cell for port in self.setup.ports for cell in self.cells[port]]
            head = make_head(self.lab, self.suite, work.variant, self.setup, cells, one)
            head |= {"plan_id": self.plan_id, "run_id": work.run_id}
            work.journal = self.journals.enter_context(archive.Journal(self.directory, head))
        for record in make_boot_records(one, work.variant, boot=work.boots, slot=work.slots):
            work.journal.append(record)
        work.journal.sync()
        work.boots += 1
        work.slots += len(one.report.trials)
        work.good += sum(said.status == "ok" for said in one.report.trials)
        for problem in _problems(one):
            self.tell(self.progress(one.port, problem=f"{work.variant.label}: {one.port}: {problem}"))

    def seal(self, work: _Work) -> None:
        """End and seal the run of a variant; one that could not even boot has none."""
        if work.journal is None:
            return
        for case_id, reason in work.skipped.items():
            work.journal.append({"rec": "skip", "case_id": case_id, "reason": reason})
        status = "failed" if not work.good else "partial" if work.ports_left else "complete"
        work.journal.append({"rec": "end", "status": status, "t_utc_ns": time.time_ns()})
        work.journal.sync()
        work.outcome = seal_journal(work.journal.path)

    def outcomes(self) -> list[Outcome]:
        """The sealed runs, in the order of the variants; what a stop left unfinished is sealed now."""
        for work in self.works:
            if work.ports_left:
                self.seal(work)
        return [work.outcome for work in self.works if work.outcome]

    def progress(self, what: str, *, problem: str = "") -> Progress:
        """Where it stands now."""
        took_s = time.monotonic() - self.begin_s
        left = self.total - self.done
        guess_s = boots_s([len(self.suite.cases)] * left, at_once=self.setup.jobs)
        left_s = took_s / self.done * left if self.done else guess_s
        return Progress(self.done, self.total, left_s, what, problem, unit="boots")


def _cells(suite: Suite, port: str, *, counting: bool) -> list[Cell]:
    cases = (case for case in suite.cases if not find_guest_refusal(case))
    return [Cell(counted(case) if counting else case, port) for case in cases]


def _refused(suite: Suite, port: str) -> Iterator[tuple[Cell, str]]:
    """The cases that no guest measures, with the reason."""
    return ((Cell(case, port), reason) for case in suite.cases if (reason := find_guest_refusal(case)))


def _problems(one: Booted) -> Iterator[str]:
    yield from say_skipped(one.report.skipped)
    failed = {said.slot.cell.id: said.reason for said in one.report.trials if said.status != "ok"}
    yield from (f"failed {case_id}: {reason}" for case_id, reason in failed.items())

# SPDX-License-Identifier: GPL-2.0-or-later
"""xdprepro run."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from types import FrameType
from typing import Annotated

import typer

from xdprepro import archive, bench, provision
from xdprepro.cli.output import Json, note, print_json, print_table, show_progress
from xdprepro.cli.storage import ArchiveDir
from xdprepro.cli.suites import SuiteName, load_suite
from xdprepro.errors import FAILED, INTERRUPTED, USAGE, XdpreproError
from xdprepro.suite import Suite

LabOption = typer.Option("--lab", metavar="LAB", help="The lab to measure on; 'xdprepro up LAB' makes it.")
RunsOption = typer.Option(min=1, max=20, help="Measure the suite so many times, interleaved; one archive each.")
CaseOption = typer.Option(
    "--case", metavar="PATTERN", help="Only cases whose id matches, e.g. 'xdp.drop.*'; repeatable."
)
RestartsOption = typer.Option(min=1, max=1000, help="Instead of the suite's own number.")
TrialsOption = typer.Option(min=1, max=1000, help="Per restart, instead of the suite's own number.")


def run(
    name: SuiteName,
    lab_name: Annotated[str, LabOption],
    runs: Annotated[int, RunsOption] = 1,
    cases: Annotated[list[str] | None, CaseOption] = None,
    restarts: Annotated[int | None, RestartsOption] = None,
    trials: Annotated[int | None, TrialsOption] = None,
    directory: ArchiveDir = None,
    as_json: Json = False,
) -> None:
    """Measure a suite on a lab and seal the raw counters in the archive.

    Ctrl-C stops after the running trial and seals what is complete as partial; a second Ctrl-C stops at once.
    """
    provision.check_root("run")
    suite = _narrow(load_suite(name), cases or [], restarts, trials)
    lab = provision.load_lab(lab_name)
    folder = archive.prepare_directory(directory)
    for left in archive.unsealed(folder):
        note(f"note: {left.name} was left by a run that ended early; 'xdprepro archive recover' seals what it holds")
    with provision.start_lock(lab) as left_by, _stop_on_interrupt() as stopped, show_progress() as tell:
        if left_by:
            note(f"note: lab {lab.name} was left as it was by {left_by}, which was killed; repairing it")
            provision.up(lab)
        outcomes = bench.run_suite(lab, suite, folder, runs=runs, tell=tell, stopped=stopped)
        interrupted = stopped()
    if not outcomes:
        note("nothing was measured, so nothing is sealed")
    if as_json:
        print_json([{**asdict(outcome), "path": str(outcome.path)} for outcome in outcomes])
    elif outcomes:
        rows = [[o.run_id, o.status, str(o.ok), str(o.failed), str(o.flagged), str(o.path)] for o in outcomes]
        columns = ["run", "status", "trials ok", "failed", "flagged", "file"]
        print_table(f"Suite {suite.name} on lab {lab.name}", columns, rows, left=(0, 1, 5))
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if any(outcome.failed or outcome.status == "failed" for outcome in outcomes):
        raise typer.Exit(FAILED)


def _narrow(suite: Suite, patterns: list[str], restarts: int | None, trials: int | None) -> Suite:
    chosen = tuple(c for c in suite.cases if not patterns or any(fnmatchcase(c.id, pattern) for pattern in patterns))
    for pattern in patterns:
        if not any(fnmatchcase(case.id, pattern) for case in suite.cases):
            ids = ", ".join(case.id for case in suite.cases)
            raise XdpreproError(f"suite {suite.name}: no case matches {pattern!r}", hint=f"it has {ids}", status=USAGE)
    return replace(suite, cases=chosen, restarts=restarts or suite.restarts, trials=trials or suite.trials)


@contextmanager
def _stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C or SIGTERM asks to stop after the running trial, the second is a KeyboardInterrupt."""
    asked = False

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        note("stopping after this trial; once more to stop at once")

    old = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield lambda: asked
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)

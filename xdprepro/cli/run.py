# SPDX-License-Identifier: GPL-2.0-or-later
"""xdprepro run."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from xdprepro import archive, bench, matrix, provision
from xdprepro.cases import GENERATORS, Case
from xdprepro.cli.matrix import ACCELS, GuestOptions, print_matrix, refuse_guest_options, start_guests
from xdprepro.cli.output import Json, note, print_json, print_table, show_progress
from xdprepro.cli.storage import ArchiveDir
from xdprepro.cli.suites import SuiteName, load_suite
from xdprepro.errors import FAILED, INTERRUPTED, USAGE, XdpreproError
from xdprepro.guest_job import Cell, counted
from xdprepro.lab import GUEST_PORTS, Lab
from xdprepro.suite import Suite

LabOption = typer.Option("--lab", metavar="LAB", help="The lab to measure on; 'xdprepro up LAB' makes it.")
RunsOption = typer.Option(min=1, max=20, help="Measure the suite so many times, interleaved; one archive each.")
CaseOption = typer.Option(
    "--case", metavar="PATTERN", help="Only cases whose id matches, e.g. 'xdp.drop.*'; repeatable."
)
RestartsOption = typer.Option(min=1, max=1000, help="Instead of the suite's own number.")
TrialsOption = typer.Option(min=1, max=1000, help="Per restart, instead of the suite's own number.")
GeneratorOption = typer.Option(
    metavar="|".join(GENERATORS), help="Instead of the cases' own; figures of different generators are not comparable."
)
GUESTS = "Labs that boot kernels"
KernelOption = typer.Option(
    "--kernel",
    metavar="KERNEL",
    rich_help_panel=GUESTS,
    help="A kernel to boot: deb:6.12, git:PATH@REF, a key of 'xdprepro kernel list', ...; repeatable.",
)
PortOption = typer.Option(
    "--port", rich_help_panel=GUESTS, metavar="PORT", help=f"{', '.join(GUEST_PORTS)}, or all; repeatable."
)
CmdlineOption = typer.Option(
    "--cmdline", rich_help_panel=GUESTS, metavar="WORDS", help="Added to the kernel's command line; repeatable."
)
CpuOption = typer.Option("--cpu", rich_help_panel=GUESTS, metavar="MODEL", help="QEMU's CPU model; repeatable.")
RepeatOption = typer.Option(min=1, max=1000, rich_help_panel=GUESTS, help="Boots of each; equal kernels count equally.")
AccelOption = typer.Option(
    rich_help_panel=GUESTS, metavar="|".join(ACCELS), help="count instructions, or measure rates in a guest."
)
MemoryOption = typer.Option(
    "--memory", rich_help_panel=GUESTS, help="Count loads, stores and cache lines, too, which takes longer."
)
JobsOption = typer.Option(min=1, max=256, rich_help_panel=GUESTS, help="Guests at once; by default one for each CPU.")


def run(
    name: SuiteName,
    lab_name: Annotated[str, LabOption],
    runs: Annotated[int | None, RunsOption] = None,
    cases: Annotated[list[str] | None, CaseOption] = None,
    restarts: Annotated[int | None, RestartsOption] = None,
    trials: Annotated[int | None, TrialsOption] = None,
    generator: Annotated[str, GeneratorOption] = "",
    kernel: Annotated[list[str] | None, KernelOption] = None,
    port: Annotated[list[str] | None, PortOption] = None,
    cmdline: Annotated[list[str] | None, CmdlineOption] = None,
    cpu: Annotated[list[str] | None, CpuOption] = None,
    repeat: Annotated[int | None, RepeatOption] = None,
    accel: Annotated[str, AccelOption] = "",
    memory: Annotated[bool, MemoryOption] = False,
    jobs: Annotated[int | None, JobsOption] = None,
    directory: ArchiveDir = None,
    as_json: Json = False,
) -> None:
    """Measure a suite on a lab and seal the raw counters in the archive.

    On a lab of this machine (veth) the kernel that runs is measured. On a lab that boots kernels (vm) each --kernel is
    booted in a guest with each --port, --cmdline and --cpu, and instructions per packet are counted.

    Ctrl-C stops after the running trial, or after the guests that run, and seals what is complete as partial; a second
    Ctrl-C stops at once.
    """
    suite = _send_by(_narrow(load_suite(name), cases or [], restarts, trials), generator)
    options = GuestOptions(
        kernel=tuple(kernel or ()),
        port=tuple(port or ()),
        cmdline=tuple(cmdline or ()),
        cpu=tuple(cpu or ()),
        repeat=repeat or 0,
        accel=accel,
        memory=memory,
        jobs=jobs or 0,
    )
    lab = _load_lab(lab_name)
    if lab.boots_kernels:
        _refuse_restarts(lab, runs, restarts)
    else:
        refuse_guest_options(lab, options)
        provision.check_root("run")
    folder = archive.prepare_directory(directory)
    for left in archive.unsealed(folder):
        note(f"note: {left.name} was left by a run that ended early; 'xdprepro archive recover' seals what it holds")
    if lab.boots_kernels:
        with (
            start_guests(lab, options, trials=trials) as (variants, setup),
            _stop_on_interrupt("the guests that run") as stopped,
            show_progress() as tell,
        ):
            outcomes = matrix.run_matrix(lab, suite, variants, setup, folder, tell=tell, stopped=stopped)
            interrupted = stopped()
    else:
        outcomes, interrupted = _run_here(lab, suite, folder, runs=runs or 1)
    _print_outcomes(lab, suite, outcomes, as_json=as_json)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if not outcomes or any(outcome.failed or outcome.status == "failed" for outcome in outcomes):
        raise typer.Exit(FAILED)


def _load_lab(name: str) -> Lab:
    """The lab; where that fails, first whoever needs root for nearly all labs is told so: it may be why."""
    try:
        return provision.load_lab(name)
    except XdpreproError:
        provision.check_root("run")
        raise


def _run_here(lab: Lab, suite: Suite, folder: Path, *, runs: int) -> tuple[list[bench.Outcome], bool]:
    """The kernel that runs, on a lab that is locked meanwhile; and whether it was interrupted."""
    with provision.start_lock(lab) as left_by, _stop_on_interrupt("this trial") as stopped, show_progress() as tell:
        if left_by:
            note(f"note: lab {lab.name} was left as it was by {left_by}, which was killed; repairing it")
            provision.up(lab)
        outcomes = bench.run_suite(lab, suite, folder, runs=runs, tell=tell, stopped=stopped)
        return outcomes, stopped()


def _print_outcomes(lab: Lab, suite: Suite, outcomes: list[bench.Outcome], *, as_json: bool) -> None:
    if not outcomes:
        note("nothing was measured, so nothing is sealed")
    if as_json:
        print_json(list(map(_as_json, outcomes)))
    elif outcomes:
        rows = [[o.run_id, o.status, str(o.ok), str(o.failed), str(o.flagged), str(o.path)] for o in outcomes]
        columns = ["run", "status", "trials ok", "failed", "flagged", "file"]
        print_table(f"Suite {suite.name} on lab {lab.name}", columns, rows, left=(0, 1, 5))
        if lab.boots_kernels:
            print_matrix(outcomes)


def _as_json(outcome: bench.Outcome) -> dict[str, object]:
    """What tells the runs of a matrix apart stands beside the rest."""
    rest = {key: value for key, value in asdict(outcome).items() if key != "about"}
    return {**rest, "path": str(outcome.path), **outcome.about}


def _refuse_restarts(lab: Lab, runs: int | None, restarts: int | None) -> None:
    for option, value in (("--runs", runs), ("--restarts", restarts)):
        if value is not None:
            raise XdpreproError(
                f"lab {lab.name} boots a guest for each measurement: {option} has no meaning there",
                hint="--repeat N boots each kernel N times",
                status=USAGE,
            )


def _narrow(suite: Suite, patterns: list[str], restarts: int | None, trials: int | None) -> Suite:
    chosen = tuple(case for case in suite.cases if not patterns or any(_matches(case, one) for one in patterns))
    for pattern in patterns:
        if not any(_matches(case, pattern) for case in suite.cases):
            ids = ", ".join(case.id for case in suite.cases)
            raise XdpreproError(f"suite {suite.name}: no case matches {pattern!r}", hint=f"it has {ids}", status=USAGE)
    return replace(suite, cases=chosen, restarts=restarts or suite.restarts, trials=trials or suite.trials)


def _matches(case: Case, pattern: str) -> bool:
    """By the suite's id, or by the one that a counted case has in tables, whose port says nothing here."""
    ids = (case.id, *(Cell(counted(case), port).id for port in GUEST_PORTS))
    return any(fnmatchcase(one, pattern) for one in ids)


def _send_by(suite: Suite, generator: str) -> Suite:
    """The suite with one generator for all its cases, if one is named."""
    if generator and generator not in GENERATORS:
        raise XdpreproError(f"--generator is {generator!r}; allowed: {', '.join(GENERATORS)}", status=USAGE)
    return replace(suite, cases=tuple(replace(case, generator=generator or case.generator) for case in suite.cases))


@contextmanager
def _stop_on_interrupt(current: str) -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C or SIGTERM asks to stop after the running trial, the second is a KeyboardInterrupt."""
    asked = False

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        note(f"stopping after {current}; once more to stop at once")

    old = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield lambda: asked
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)

# SPDX-License-Identifier: GPL-2.0-or-later
"""xdprepro archive ls, show, verify, recover."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from xdprepro import archive, bench, exact_report, report
from xdprepro.cli.output import Json, note, print_json, print_table, print_tables
from xdprepro.cli.storage import RUN_HELP, ArchiveDir, archive_folder
from xdprepro.errors import BUSY, STORAGE, USAGE, XdpreproError
from xdprepro.exact import is_exact
from xdprepro.passes import pass_tables
from xdprepro.published import parse_published, published_tables
from xdprepro.rings import ring_tables
from xdprepro.search_report import search_tables
from xdprepro.table import Table
from xdprepro.table import as_json as table_json
from xdprepro.view import RunView, TrialView, view_run

app = typer.Typer(no_args_is_help=True, help="Sealed runs: list, show, verify; recover what a crash left.")

RunNames = Annotated[list[str], typer.Argument(metavar="RUN...", help=RUN_HELP)]
REFERENCE = Path(__file__).parents[2] / "archive/reference"  # figures that others published
OneOrMore = typer.Argument(metavar="[RUN]...", help=f"{RUN_HELP} Several with --table only.", show_default="latest")
TableOption = typer.Option(
    "--table",
    metavar="NAME",
    help="A published table again, beside its figures: brouer2017, topel2018 or karlsson2018.",
)
TrialsOf = typer.Option(
    "--case", metavar="CASE_ID", help="Show every trial of this case instead, and where its packets went."
)


@app.command("ls")
def list_runs(directory: ArchiveDir = None, as_json: Json = False) -> None:
    """List the sealed runs, oldest first."""
    folder = archive_folder(directory)
    runs = archive.list_runs(folder)
    if not folder.exists():
        note(f"note: {folder} does not exist yet; 'xdprepro run' makes it")
    if as_json:
        print_json([_printable({**asdict(run), "path": str(run.path)}) for run in runs])
        return
    rows = [
        [
            run.run_id,
            datetime.fromtimestamp(run.created_utc_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S"),
            run.status,
            run.suite,
            f"{run.lab} ({': '.join(filter(None, [run.lab_kind, ', '.join(run.ports)]))})",
            run.kernel_release,
            str(run.trials),
            str(run.failed),
            str(run.flagged),
            run.problem,
        ]
        for run in runs
    ]
    columns = ["run", "created, UTC", "status", "suite", "lab", "kernel", "trials", "failed", "flagged", "problem"]
    print_table("Runs", columns, _printable(rows), left=(0, 1, 2, 3, 4, 5, 9))


def _printable(value: Any) -> Any:
    """File names can be of bytes that are no text."""
    if isinstance(value, dict):
        return {key: _printable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(one) for one in value]
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


@app.command("show")
def show(
    names: Annotated[list[str] | None, OneOrMore] = None,
    case_id: Annotated[str, TrialsOf] = "",
    table: Annotated[str, TableOption] = "",
    directory: ArchiveDir = None,
    as_json: Json = False,
) -> None:
    """Show the rates of a run, or the instructions per packet, and what each step costs."""
    if table:
        _show_published(names or ["latest"], table, case_id, directory, as_json=as_json)
        return
    name, *others = names or ["latest"]
    if others:
        raise XdpreproError(f"{1 + len(others)} runs", hint="name one run, or add --table NAME", status=USAGE)
    view = view_run(archive.load_run(archive.find_run(archive_folder(directory), name)))
    counted = is_exact(view)
    if case_id:
        trials = exact_report.window_table(view, case_id) if counted else report.trial_table(view, case_id)
        tables = [trials, *map(report.closure_table, _trials_of(view, case_id))]
    elif counted:
        tables = [report.run_summary(view), exact_report.count_table(view), exact_report.count_cost_table(view)]
    else:
        tables = [report.run_summary(view), report.case_table(view)]
        tables += [*search_tables(view), *ring_tables(view), *pass_tables(view), report.cost_table(view)]
    if as_json:
        print_json([table_json(table) for table in tables] if case_id else _summary_json(tables))
        return
    print_tables(tables)


def _show_published(names: Sequence[str], table: str, case_id: str, directory: Path | None, *, as_json: bool) -> None:
    known = sorted(path.stem for path in REFERENCE.glob("*.toml"))
    if table not in known:
        raise XdpreproError(f"no table {table!r}", hint=f"use one of: {', '.join(known)}", status=USAGE)
    if case_id:
        raise XdpreproError("--table and --case ask for two things", hint="leave one of them out", status=USAGE)
    published = parse_published((REFERENCE / f"{table}.toml").read_text(), table)
    folder = archive_folder(directory)
    views = [view_run(archive.load_run(archive.find_run(folder, name))) for name in names]
    tables = [one for view in views for one in published_tables(published, view)]
    if as_json:
        print_json([table_json(one) for one in tables])
    else:
        print_tables(tables)


def _summary_json(tables: list[Table]) -> dict[str, Any]:
    """Tables by name, and the facts of the run as one object."""
    facts, *others = [table_json(table) for table in tables]
    run = {row["fact"]: row["value"] for row in facts["rows"]} | {"notes": facts["notes"]}
    return {"run": run} | {table["name"]: table for table in others}


def _trials_of(view: RunView, case_id: str) -> tuple[TrialView, ...]:
    if case_id not in view.run.cases:
        known = ", ".join(view.run.cases)
        raise XdpreproError(f"run {view.run.run_id}: no case {case_id!r}", hint=f"it has {known}", status=USAGE)
    return view.of_case(case_id)


@app.command("verify")
def verify(names: RunNames, directory: ArchiveDir = None, as_json: Json = False) -> None:
    """Check that sealed runs are whole: checksum, every dataset, schema, references, monotonic counters."""
    folder = archive_folder(directory)
    findings = {path: archive.verify_run(path) for path in [archive.find_run(folder, name) for name in names]}
    if as_json:
        print_json(
            [{"path": str(path), "findings": [asdict(one) for one in found]} for path, found in findings.items()]
        )
    else:
        for path, found in findings.items():
            print(f"{path}: {'damaged' if found else 'whole'}")
            for one in found:
                print(f"  {one.where}: {one.what}")
    if any(findings.values()):
        raise typer.Exit(STORAGE)


@app.command("recover")
def recover(directory: ArchiveDir = None) -> None:
    """Seal what interrupted runs left in their journals, as partial; their finished trials are as good as any.

    A journal that cannot be sealed stays and is reported, and the others are recovered all the same.
    """
    left = archive.unsealed(archive_folder(directory))
    kept = 0
    for journal in left:
        try:
            path = archive.recover(journal, bench.find_flags)
        except XdpreproError as error:
            kept += error.status != BUSY
            note(f"error: {error.message}")
            if error.hint:
                note(f"hint: {error.hint}")
        else:
            print(f"{journal.stem}: {f'sealed as {path}' if path else 'no trial had begun, removed'}")
    if not left:
        note("nothing to recover: every journal belongs to a run that goes on, or is sealed")
    if kept:
        raise XdpreproError(f"{kept} of {len(left)} journals were not recovered and stay", status=STORAGE)

# SPDX-License-Identifier: GPL-2.0-or-later
"""xdprepro compare."""

from typing import Annotated

import typer

from xdprepro import archive, differences, exact_report, report
from xdprepro import compare as comparing
from xdprepro.cli.output import Json, note, print_json, print_tables
from xdprepro.cli.storage import RUN_HELP, ArchiveDir, archive_folder
from xdprepro.comparable import EMULATED, is_emulated
from xdprepro.errors import FAILED
from xdprepro.table import as_json as table_json
from xdprepro.view import view_run

GateOption = typer.Option("--gate", help="Exit status 3 if a case got slower, 4 if undecided or incomparable.")
MarginOption = typer.Option(
    "--margin",
    metavar="PCT",
    help="Changes within this margin count as none; at least 0.5.",
    show_default="0.5 of a rate",
)
LevelOption = typer.Option("--level", metavar="SHARE", min=0.5, max=0.9999, help="Of the intervals.")
ConfoundedOption = typer.Option("--allow-confounded", help="Judge although the runs differ in more than the kernel.")


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help=f"Before. {RUN_HELP}")],
    b: Annotated[str, typer.Argument(metavar="B", help=f"After. {RUN_HELP}")],
    gate: Annotated[bool, GateOption] = False,
    margin_pct: Annotated[float | None, MarginOption] = None,
    level: Annotated[float, LevelOption] = 0.99,
    allow_confounded: Annotated[bool, ConfoundedOption] = False,
    directory: ArchiveDir = None,
    as_json: Json = False,
) -> None:
    """Did a case get slower from A to B, and by how many ns or instructions per packet?

    First whatever differs between the two. Then for each case the difference and a verdict: with its interval and the
    smallest difference that could have been seen for a rate, with its bound and the functions that explain it for a
    count of instructions.
    """
    folder = archive_folder(directory)
    views = [view_run(archive.load_run(archive.find_run(folder, name))) for name in (a, b)]
    result = comparing.compare(*views, margin_pct=margin_pct, level=level, allow_confounded=allow_confounded)
    tables = [
        differences.sides_table(result),
        differences.dimension_table(result),
        differences.config_table(result, everything=as_json),
        differences.mismatch_table(result),
        *([exact_report.count_compare_table(result)] if result.counted else []),
        *([report.compare_table(result)] if result.timed or not result.counted else []),
    ]
    if as_json:
        print_json({table.name: table_json(table) for table in tables})
    else:
        print_tables([table for table in tables if table.rows or table.notes])
    if gate:
        raise typer.Exit(result.status)
    if result.count("INCOMPARABLE"):
        _tell_incomparable(result)
        raise typer.Exit(FAILED)


def _tell_incomparable(result: comparing.Comparison) -> None:
    if result.timed and any(is_emulated(view.run) for view in (result.a, result.b)):
        note(f"error: the runs are not comparable: {EMULATED}")
        note("hint: count instructions, which is what 'xdprepro run' does in guests, or use --accel kvm")
        return
    note("error: the runs are not comparable: see what differs above")
    how = "build both kernels alike" if result.counted else "measure both on one lab with 'xdprepro run --runs 2'"
    note(f"hint: {how}, or pass --allow-confounded")

# SPDX-License-Identifier: GPL-2.0-or-later
"""xdprepro explain."""

from typing import Annotated

import typer

from xdprepro import archive
from xdprepro.cli.output import Json, print_json, print_tables
from xdprepro.cli.storage import RUN_HELP, ArchiveDir, archive_folder
from xdprepro.comparable import check_comparable, find_serious
from xdprepro.errors import USAGE, XdpreproError
from xdprepro.exact import case_counts
from xdprepro.explain import check_counted, explain_table, find_case, format_folded, profile_table
from xdprepro.sample import PROFILE_SIDES
from xdprepro.table import as_json as table_json
from xdprepro.view import view_run

WordsArgument = typer.Argument(
    metavar="A [B] CASE", help=f"Before, after (or one run alone), and a case id or a pattern of one. Runs: {RUN_HELP}"
)
SideOption = typer.Option(
    "--side", metavar="SIDE", help=f"{', '.join(PROFILE_SIDES)} or all.", show_default="under test"
)
TopOption = typer.Option("--top", metavar="N", min=1, help="Functions of each side, the others in one line.")
FoldedOption = typer.Option(
    "--folded", help="Lines for flame graph programs: side;function, then instructions per 1000 packets in A and in B."
)


def explain(
    words: Annotated[list[str], WordsArgument],
    side: Annotated[str, SideOption] = "",
    top: Annotated[int, TopOption] = 25,
    folded: Annotated[bool, FoldedOption] = False,
    directory: ArchiveDir = None,
    as_json: Json = False,
) -> None:
    """Which functions' instructions per packet differ from A to B? With one run: which functions are they in?

    Only runs that were counted (on a lab of guests) can tell. The sums are those of the figures: all functions
    together, those left out included.
    """
    if len(words) not in (2, 3):
        raise XdpreproError(f"{len(words)} arguments", hint="use: xdprepro explain A [B] CASE", status=USAGE)
    if side not in ("", "all", *PROFILE_SIDES):
        raise XdpreproError(f"no side {side!r}", hint=f"use all or one of {', '.join(PROFILE_SIDES)}", status=USAGE)
    *names, pattern = words
    folder = archive_folder(directory)
    views = [view_run(archive.load_run(archive.find_run(folder, name))) for name in names]
    if len(views) == 2 and views[0].run.run_id == views[1].run.run_id:
        fact = f"A and B are the same run {views[0].run.run_id}"
        raise XdpreproError(fact, hint="name two runs, or one: xdprepro explain A CASE", status=USAGE)
    case_id = find_case(views, pattern)
    counts = [case_counts(view, case_id) for view in views]
    for view, one in zip(views, counts, strict=True):
        check_counted(view, one)
    sides = {"": counts[0].sides, "all": PROFILE_SIDES}.get(side, (side,))
    if folded:
        print("\n".join(format_folded(counts, sides)))
        return
    if len(views) == 1:
        table = profile_table(counts[0], sides=sides, top=top)
    else:
        doubts = find_serious(check_comparable(views[0].run, views[1].run), case_id)
        table = explain_table(*counts, sides=sides, top=top, doubts=doubts)
    if as_json:
        print_json(table_json(table))
    else:
        print_tables([table])

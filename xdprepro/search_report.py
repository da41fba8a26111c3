# SPDX-License-Identifier: GPL-2.0-or-later
"""What a reader of a run's searches sees: for each restart and loss ratio the bounds, and what was measured there."""

from collections.abc import Iterator
from typing import Any

from xdprepro.table import Column, Table, digits_cell
from xdprepro.validity import excluding
from xdprepro.view import RunView, Search, figure_name, find_searches


def search_tables(view: RunView) -> tuple[Table, ...]:
    """The table of a run's searches, if it has any."""
    searched = any(params.get("load") == "search" for params in view.run.cases.values())
    return (search_table(view),) if searched else ()


def search_table(view: RunView) -> Table:
    """Every search of a run, those that no verdict uses included."""
    columns = (
        Column("case_id", "case", words=True),
        Column("restart", "restart"),
        Column("loss_ratio", "loss allowed, %", digits_cell(3, scale=100)),
        Column("lower_pps", "good at, Mpps", digits_cell(3, scale=1e-6)),
        Column("upper_pps", "bad at, Mpps", digits_cell(3, scale=1e-6)),
        Column("width_pct", "width, %", digits_cell(2)),
        Column("pps", "reached its end, Mpps", digits_cell(3, scale=1e-6)),
        Column("steps", "steps"),
        Column("usable", "usable", lambda usable: "yes" if usable else "no", words=True, once=True),
        Column("note", "note", words=True, once=True),
    )
    return Table(
        "searches", "Searches: the highest load that lost no more than was allowed", columns, tuple(_rows(view))
    )


def _rows(view: RunView) -> Iterator[dict[str, Any]]:
    for case_id, params in view.run.cases.items():
        if params.get("load") == "search":
            for loss_ratio in params["loss_ratios"]:
                name = figure_name(case_id, loss_ratio)
                yield from (_row(name, search) for search in find_searches(view, case_id, loss_ratio))


def _row(name: str, search: Search) -> dict[str, Any]:
    bounds = search.bounds
    return {
        "case_id": name,
        "restart": search.boot,
        "loss_ratio": bounds.loss_ratio,
        "lower_pps": bounds.lower_pps,
        "upper_pps": bounds.upper_pps,
        "width_pct": None if bounds.width is None else 100 * bounds.width,
        "pps": search.pps,
        "steps": search.steps,
        "usable": search.usable,
        "note": "; ".join(_notes(search)),
    }


def _notes(search: Search) -> Iterator[str]:
    """Why a search has no figure, or what it did not come to."""
    if search.broken:
        flags = sorted({flag for one in search.broken for flag in excluding(one.flags)})
        reason = next((one.trial.reason for one in search.broken if one.trial.reason), "")
        yield f"{len(search.broken)} steps cannot be trusted: {reason or ', '.join(flags)}"
    if search.bounds.lower_pps is None and search.bounds.upper_pps is not None:
        yield "even the lowest load tried lost more"
    if search.bounds.upper_pps is None and search.usable:
        yield "the generator has no more to give"
    if search.best and not search.usable:
        yield ", ".join(sorted({flag for one in search.best for flag in excluding(one.flags)}))

# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of mails and papers made again: what a run measured beside what was published. No verdict comes of it.

Other machines, kernels and generators: only the pattern of rows and columns can be compared.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xdprepro.cases import PARAMETERS, TIMES, make_case
from xdprepro.exact import case_counts
from xdprepro.stats import is_counted
from xdprepro.table import Column, Table, digits_cell
from xdprepro.view import RunView, case_rates

SCALES = {"pps": 1.0, "Mpps": 1e6}
# What differs between labs without making another row of the table; a counted guest sleeps where a machine spins.
ANY = frozenset({*TIMES, "generator", "generator_batch", "wakeup", "packet_wakeup"})


@dataclass(frozen=True, slots=True)
class Figure:
    """A cell: `pps` as published, None where nothing was; `case` is what measures it, empty where nothing does."""

    row: str
    column: str
    pps: float | None
    case: Mapping[str, Any]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """The cost of a step between two rows, in ns per packet as published."""

    name: str
    without: str
    with_: str
    value_ns: float


@dataclass(frozen=True, slots=True)
class Published:
    """A table of somebody else's, with all that is known of how it came about."""

    name: str
    title: str
    about: str
    columns: tuple[str, ...]
    figures: tuple[Figure, ...]
    gaps: tuple[Gap, ...]

    @property
    def rows(self) -> tuple[str, ...]:
        """In the order of the source."""
        return tuple(dict.fromkeys(figure.row for figure in self.figures))


def parse_published(text: str, name: str) -> Published:
    """A file of archive/reference."""
    data = tomllib.loads(text)
    scale = SCALES[data["unit"]]
    figures = tuple(
        Figure(one["row"], one["column"], one["value"] * scale if "value" in one else None, one.get("case", {}), note)
        for one in data["figure"]
        for note in [one.get("note", "")]
    )
    gaps = tuple(Gap(one["name"], one["without"], one["with"], one["value_ns"]) for one in data.get("difference", ()))
    about = f"published: {data['source']}, {data['date']}: {data['context']}; {data['value_kind']}"
    return Published(name, data["title"], about, tuple(data["columns"]), figures, gaps)


def published_tables(published: Published, view: RunView) -> tuple[Table, ...]:
    """The table for each port of a run; one of rates for a lab whose ports are there already."""
    ports = dict.fromkeys(params.get("port", "") for params in view.run.cases.values())
    return tuple(table for port in ports for table in _tables(published, view, port))


def _tables(published: Published, view: RunView, port: str) -> Iterator[Table]:
    counted = any(is_counted(params) for params in view.run.cases.values())
    columns = [Column("row", "row", words=True)]
    for name in published.columns:
        columns.append(Column(f"measured.{name}", name, _cell(counted)))
        columns.append(Column(f"published.{name}", "published", digits_cell(2, scale=1e-6)))
    rows = tuple(_row(published, view, port, row) for row in published.rows)
    where = " ".join(filter(None, [view.run.lab, port, view.run.fingerprint["kernel"]["release"]]))
    units = f"{'instructions per packet' if counted else 'Mpps'} of {where}; Mpps as published"
    yield Table(f"published.{published.name}", f"{published.title}: {units}", tuple(columns), rows, _notes(published))
    if published.gaps:
        yield _gap_table(published, rows, counted=counted)


def _cell(counted: bool) -> Any:
    return digits_cell(1) if counted else digits_cell(3, scale=1e-6)


def _row(published: Published, view: RunView, port: str, row: str) -> dict[str, Any]:
    cells: dict[str, Any] = {"row": row}
    for column in published.columns:
        figure = next((one for one in published.figures if (one.row, one.column) == (row, column)), None)
        cells[f"measured.{column}"] = _measured(view, port, figure.case) if figure and figure.case else None
        cells[f"published.{column}"] = figure.pps if figure else None
    return cells


def _measured(view: RunView, port: str, wanted: Mapping[str, Any]) -> float | None:
    """Packets a second of the case, or instructions per packet; None where the run has no usable trial of it."""
    params = make_case(wanted).params()
    keys = {"case", *PARAMETERS} - ANY
    for case_id, have in view.run.cases.items():
        if have.get("port", "") == port and all(have.get(key) == params[key] for key in keys):
            return case_counts(view, case_id).figure if is_counted(have) else case_rates(view, case_id).pps
    return None


def _gap_table(published: Published, rows: tuple[dict[str, Any], ...], *, counted: bool) -> Table:
    [column] = published.columns
    by_row = {row["row"]: row[f"measured.{column}"] for row in rows}
    columns = (
        Column("step", "step", words=True),
        Column("measured", f"{'instructions' if counted else 'ns'} per packet here", digits_cell(2, sign=True)),
        Column("published_ns", "ns per packet published", digits_cell(2, sign=True)),
    )
    steps = tuple(
        {
            "step": gap.name,
            "measured": _difference(by_row[gap.without], by_row[gap.with_], counted=counted),
            "published_ns": gap.value_ns,
        }
        for gap in published.gaps
    )
    note = () if counted else ("'archive show' has these steps with their intervals",)
    return Table(f"published.{published.name}.steps", "What each step costs", columns, steps, note)


def _difference(without: float | None, with_: float | None, *, counted: bool) -> float | None:
    if not without or not with_:
        return None
    return with_ - without if counted else 1e9 / with_ - 1e9 / without


def _notes(published: Published) -> tuple[str, ...]:
    return (
        published.about,
        "another machine, kernel and generator: only the patterns of rows and columns are to be compared",
        *(f"{figure.row}: {figure.note}" for figure in published.figures if figure.note),
    )

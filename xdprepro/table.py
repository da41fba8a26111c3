# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of plain values, for two readers: people get cells, programs get values under stable keys in SI units or ns.

A value that does not exist is None and "-"; the row or a note says why.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """`key` is the JSON key, `heading` has the unit of the text, `cell` makes the text of a value.

    `interval` is the key of the value's interval, which is shown beside it. A column marked `once` may be said once
    below the table when all rows agree (say_once).
    """

    key: str
    heading: str
    cell: Callable[[Any], str] = str
    interval: str = ""
    words: bool = False
    once: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows are dicts with at least the columns' keys; `notes` are sentences for below the table.

    `short` are the same notes for people, where they are to read fewer.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    short: tuple[str, ...] = ()

    @property
    def text_notes(self) -> tuple[str, ...]:
        """The notes for people."""
        return self.short or self.notes


def say_once(table: Table) -> Table:
    """The table without the columns that are marked `once` and have one text in all rows; a note says what they say."""
    texts = {column: {_cell(column, row) for row in table.rows} for column in table.columns if column.once}
    agreed = {column: next(iter(cells)) for column, cells in texts.items() if len(cells) == 1}
    said = ", ".join(f"{column.heading} {text}" for column, text in agreed.items() if text not in ("", "-"))
    return replace(
        table,
        columns=tuple(column for column in table.columns if column not in agreed),
        notes=(*([f"in every row: {said}"] if said else []), *table.text_notes),
        short=(),
    )


def as_text(table: Table) -> list[list[str]]:
    """The cells of each row, in the order of the columns."""
    return [[_cell(column, row) for column in table.columns] for row in table.rows]


def as_json(table: Table) -> dict[str, Any]:
    """The table as JSON values: `name`, `title`, `rows` (each a dict), `notes`."""
    return {
        "name": table.name,
        "title": table.title,
        "rows": [{key: _plain(value) for key, value in row.items()} for row in table.rows],
        "notes": list(table.notes),
    }


def _cell(column: Column, row: Row) -> str:
    if _plain(row[column.key]) is None:
        return "-"
    value = column.cell(row[column.key])
    ends = row[column.interval] if column.interval else None
    return f"{value} ({column.cell(ends[0])} .. {column.cell(ends[1])})" if ends else value


def _plain(value: Any) -> Any:
    """A value as JSON has it: no NaN, no infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value


def digits_cell(places: int, *, scale: float = 1.0, sign: bool = False) -> Callable[[float], str]:
    """Cells of numbers with so many digits, shown in units of 1/scale."""
    return lambda value: f"{value * scale:{'+' if sign else ''}z.{places}f}"


def percent_cell(value: float) -> str:
    """A cell of a change in percent: digits where they matter."""
    return f"{value:+.{2 if abs(value) < 10 else 1}f}"


def list_cell(values: Any) -> str:
    """A cell of words."""
    return ", ".join(values)

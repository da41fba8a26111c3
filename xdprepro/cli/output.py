# SPDX-License-Identifier: GPL-2.0-or-later
"""How results and progress look: tables and JSON on stdout, progress and notes on stderr."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from xdprepro import session
from xdprepro.table import Table as ReportTable
from xdprepro.table import as_text, say_once

WIDEST = 200
LINE_EVERY_S = 10.0

Rows = Sequence[Sequence[str]]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(title: str, columns: Sequence[str], rows: Rows, *, left: Sequence[int] = (0,)) -> None:
    """A table on stdout; columns in `left` hold words, the others numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.show_header = any(columns)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index in left else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    # A terminal breaks a long line where it must; broken cells would be worse, as ids are to be copied.
    wide = Console(highlight=False, markup=False, width=WIDEST)
    natural = Measurement.get(wide, wide.options, table).maximum
    stdout = Console(highlight=False, markup=False, width=min(WIDEST, max(natural, wide.size.width * wide.is_terminal)))
    with stdout.capture() as captured:
        stdout.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def print_tables(tables: Sequence[ReportTable]) -> None:
    """Report tables, each with its notes below."""
    for table in map(say_once, tables):
        words = [index for index, column in enumerate(table.columns) if column.words]
        print_table(table.title, [column.heading for column in table.columns], as_text(table), left=words)
        for line in table.notes:
            print(line)
        print()


def note(text: str) -> None:
    """A line for the person at the terminal, on stderr; if nobody is there any more, the work goes on without."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def format_duration(seconds: float) -> str:
    """Minutes and seconds, as people say them."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


@contextmanager
def show_progress() -> Iterator[Callable[[session.Progress], None]]:
    """A bar with the time left on a terminal; elsewhere a line now and then. Problems are always printed."""
    console = Console(stderr=True, highlight=False, markup=False)
    if not console.is_terminal:
        yield _plain_lines()
        return
    count = TextColumn("{task.completed}/{task.total}  {task.fields[left]}")
    columns = (TextColumn("{task.description}"), BarColumn(), count)
    bar = Progress(*columns, console=console, transient=True, auto_refresh=False)
    task = bar.add_task("starting", total=None, left="")

    def tell(step: session.Progress) -> None:
        left = f"{format_duration(step.left_s)} left"
        # A terminal that is closed in the middle of a run must not end the run.
        with suppress(OSError):
            if step.problem:
                console.print(step.problem)
            bar.update(task, completed=step.done, total=step.total, description=step.what, left=left, refresh=True)

    try:
        with suppress(OSError):
            bar.start()
        yield tell
    finally:
        with suppress(OSError):
            bar.stop()


def _plain_lines() -> Callable[[session.Progress], None]:
    last_s = 0.0

    def tell(step: session.Progress) -> None:
        nonlocal last_s
        if step.problem:
            note(step.problem)
        now_s = time.monotonic()
        if now_s - last_s >= LINE_EVERY_S or step.done == step.total:
            last_s = now_s
            note(f"{step.done}/{step.total} {step.unit}, {format_duration(step.left_s)} left: {step.what}")

    return tell

# SPDX-License-Identifier: GPL-2.0-or-later
"""xdprepro suite list, xdprepro suite show; and finding a suite by name or path."""

import os
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from xdprepro.cli.output import Json, format_duration, print_json, print_table
from xdprepro.errors import USAGE, XdpreproError
from xdprepro.suite import Suite, is_suite_name, parse_suite

FILE_BYTES = 1024 * 1024  # a larger file is no suite

app = typer.Typer(no_args_is_help=True, help="The suites there are and what they measure.")

SuiteName = Annotated[str, typer.Argument(metavar="SUITE", help="The name of a suite, or the path of a .toml file.")]


def suite_names() -> list[str]:
    """The suites that come with xdprepro."""
    folder = resources.files("xdprepro") / "suites"
    return sorted(Path(entry.name).stem for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_suite(name: str) -> Suite:
    """A suite that comes with xdprepro, or one in a file."""
    if is_suite_name(name):
        entry = resources.files("xdprepro") / "suites" / f"{name}.toml"
        if not entry.is_file():
            hint = f"use one of: {', '.join(suite_names())}; or the path of a .toml file"
            raise XdpreproError(f"suite {name}: there is none of this name", hint=hint, status=USAGE)
        return parse_suite(entry.read_text(encoding="utf-8"), name)
    hint = "give the path of a .toml file"
    try:
        with Path(name).open("rb") as file:
            raw = file.read(FILE_BYTES + 1)
        if len(raw) > FILE_BYTES:
            raise XdpreproError(f"suite {name}: larger than {FILE_BYTES} bytes", hint=hint, status=USAGE)
        text = raw.decode("utf-8-sig")  # some editors put a byte order mark in front
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise XdpreproError(f"suite {name}: cannot be read: {reason}", hint=hint, status=USAGE) from None
    # A file may have any bytes for a name, an archive and a terminal may not.
    return parse_suite(text, os.fsencode(Path(name).stem).decode(errors="backslashreplace"))


@app.command("list")
def list_suites(as_json: Json = False) -> None:
    """List the suites that come with xdprepro."""
    suites = [load_suite(name) for name in suite_names()]
    if as_json:
        print_json([_summary(suite) for suite in suites])
        return
    rows = [[s.name, s.title, str(len(s.cases)), str(s.restarts), str(s.trials), _time(s)] for s in suites]
    print_table("Suites", ["suite", "what it is", "cases", "restarts", "trials each", "measuring"], rows, left=(0, 1))


@app.command("show")
def show_suite(name: SuiteName, as_json: Json = False) -> None:
    """Show the cases of a suite with all their parameters."""
    suite = load_suite(name)
    if as_json:
        print_json({**_summary(suite), "case": [{"id": case.id, **case.params()} for case in suite.cases]})
        return
    rows = [
        [c.id, c.kind.about, c.generator, str(c.flows), str(c.generator_batch), f"{c.settle_s:g} + {c.measure_s:g}"]
        for c in suite.cases
    ]
    title = f"{suite.name}: {suite.title}; {suite.restarts} restarts x {suite.trials} trials, seed {suite.seed}"
    columns = ["case id", "what happens", "generator", "flows", "batch", "settle + measure, s"]
    print_table(f"{title}, {_time(suite)} of measuring", columns, rows, left=(0, 1, 2))


def _summary(suite: Suite) -> dict[str, object]:
    return {
        "name": suite.name,
        "title": suite.title,
        "cases": len(suite.cases),
        "restarts": suite.restarts,
        "trials": suite.trials,
        "seed": suite.seed,
        "measuring_s": _measuring_s(suite),
    }


def _measuring_s(suite: Suite) -> float:
    return suite.restarts * suite.trials * sum(suite.trial_s(case) for case in suite.cases)


def _time(suite: Suite) -> str:
    return format_duration(_measuring_s(suite))

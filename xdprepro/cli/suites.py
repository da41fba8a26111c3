# SPDX-License-Identifier: GPL-2.0-or-later
"""xdprepro suite list, xdprepro suite show; and finding a suite by name or path."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from xdprepro import bench, provision
from xdprepro.cases import PARAMETERS, TIMES, Case, usual
from xdprepro.cli.matrix import GuestOptions, refuse_guest_options, start_guests
from xdprepro.cli.output import Json, format_duration, note, print_json, print_table
from xdprepro.duration import boots_s, suite_s
from xdprepro.errors import USAGE, XdpreproError
from xdprepro.guest_ahead import find_guest_missing, probe_guest
from xdprepro.guest_job import counted
from xdprepro.lab import GUEST_PORTS, Lab
from xdprepro.scratch import start_scratch
from xdprepro.suite import Suite, is_suite_name, parse_suite

SHOWN_IDS = 5  # of the cases that one reason is for; the table marks them all
FILE_BYTES = 1024 * 1024  # a larger file is no suite

app = typer.Typer(no_args_is_help=True, help="The suites there are and what they measure.")

LabOption = typer.Option("--lab", metavar="LAB", help="Say what this lab will skip, too.")
KernelOption = typer.Option("--kernel", metavar="KERNEL", help="On a lab that boots kernels: which; repeatable.")
PortOption = typer.Option("--port", metavar="PORT", help=f"There, of {', '.join(GUEST_PORTS)}, or all; repeatable.")

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
    """List the suites that come with xdprepro, with their cells and the time that they take."""
    suites = [load_suite(name) for name in suite_names()]
    if as_json:
        print_json([_summary(suite) for suite in suites])
        return
    rows = [
        [s.name, s.title, str(len(s.cases)), f"{s.restarts} x {s.trials}", format_duration(suite_s(s, s.cases))]
        for s in suites
    ]
    print_table("Suites", ["suite", "what it is", "cells", "restarts x trials", "time, about"], rows, left=(0, 1))


@app.command("show")
def show_suite(
    name: SuiteName,
    lab_name: Annotated[str, LabOption] = "",
    kernel: Annotated[list[str] | None, KernelOption] = None,
    port: Annotated[list[str] | None, PortOption] = None,
    as_json: Json = False,
) -> None:
    """Show the cells of a suite and the time that they take; with a lab, what will be skipped there, and why.

    A lab of this machine must be up. On a lab that boots kernels each --kernel is booted once with each --port, to ask
    what it can do.
    """
    suite = load_suite(name)
    options = GuestOptions(kernel=tuple(kernel or ()), port=tuple(port or ()))
    places = _look_ahead(suite, lab_name, options) if lab_name else ()
    if as_json:
        print_json(_suite_json(suite, places))
        return
    columns = ["case id", "what happens", "other than usual", "settle + measure, s", *(f"on {p.name}" for p in places)]
    rows = [[*_case_cells(case), *("no" if case.id in p.skipped else "yes" for p in places)] for case in suite.cases]
    title = f"{suite.name}: {suite.title}; {suite.restarts} restarts x {suite.trials} trials, seed {suite.seed}"
    print_table(f"{title}; about {format_duration(suite_s(suite, suite.cases))}", columns, rows, left=(0, 1, 2))
    for place in places:
        print("\n".join(_format_place(suite, place)))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a suite may run: how long it takes there, and the case ids that do not run, with reasons."""

    name: str
    duration_s: float
    skipped: Mapping[str, str]


def _look_ahead(suite: Suite, lab_name: str, options: GuestOptions) -> tuple[Place, ...]:
    lab = provision.load_lab(lab_name)
    if lab.boots_kernels:
        return tuple(_ask_guests(suite, lab, options))
    refuse_guest_options(lab, options)
    provision.check_root("asking a lab")
    with provision.start_lock(lab):
        ready = bench.look_ahead(lab, suite)
    own = {case.id for case in suite.cases}
    skipped = {key: reason for key, reason in ready.skipped.items() if key in own}
    return (Place(f"lab {lab.name}", suite_s(suite, ready.cases.values()), skipped),)


def _ask_guests(suite: Suite, lab: Lab, options: GuestOptions) -> Iterator[Place]:
    with start_guests(lab, options, trials=None) as (variants, setup), start_scratch() as scratch:
        for number, (variant, port) in enumerate(product(variants, setup.ports)):
            note(f"asking {variant.label} what it can do with {port}")
            probes = probe_guest(lab, variant, port, suite, accel=setup.accel, place=scratch / str(number))
            cells = {case.id: counted(case) if setup.counting else case for case in suite.cases}
            skipped = {key: why for key, cell in cells.items() if (why := find_guest_missing(cell, port, probes))}
            yield Place(f"{variant.label} {port}", boots_s([len(cells) - len(skipped)], at_once=1), skipped)


def _case_cells(case: Case) -> list[str]:
    other = ", ".join(f"{key} = {_format_value(value)}" for key, value in _unusual(case).items())
    return [case.id, case.kind.about, other, f"{case.settle_s:g} + {case.measure_s:g}"]


def _unusual(case: Case) -> dict[str, Any]:
    """The parameters that are not as usual, times excepted."""
    names = [name for name in PARAMETERS if name not in TIMES and case.has(name)]
    return {name: case.get(name) for name in names if case.get(name) != usual(name)}


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _format_place(suite: Suite, place: Place) -> Iterator[str]:
    runs = len(suite.cases) - len(place.skipped)
    yield f"on {place.name}: {runs} of {len(suite.cases)} cells, about {format_duration(place.duration_s)}"
    for reason in dict.fromkeys(place.skipped.values()):
        ids = [key for key, why in place.skipped.items() if why == reason]
        others = f" and {len(ids) - SHOWN_IDS} others" if len(ids) > SHOWN_IDS else ""
        yield f"  skipped, as {reason}: {', '.join(ids[:SHOWN_IDS])}{others}"


def _suite_json(suite: Suite, places: Sequence[Place]) -> dict[str, Any]:
    cases = [{"id": case.id, "unusual": _unusual(case), **case.params()} for case in suite.cases]
    return {**_summary(suite), "case": cases, "places": [asdict(place) for place in places]}


def _summary(suite: Suite) -> dict[str, Any]:
    return {
        "name": suite.name,
        "title": suite.title,
        "cases": len(suite.cases),
        "restarts": suite.restarts,
        "trials": suite.trials,
        "seed": suite.seed,
        "duration_s": suite_s(suite, suite.cases),
    }

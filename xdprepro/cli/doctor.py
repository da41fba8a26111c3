# SPDX-License-Identifier: GPL-2.0-or-later
"""xdprepro doctor."""

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import typer

from xdprepro import provision
from xdprepro.bench import resolve_generator
from xdprepro.cases import Case
from xdprepro.cli.matrix import GuestOptions, refuse_guest_options, start_guests
from xdprepro.cli.output import Json, note, print_json, print_table
from xdprepro.cli.suites import KernelOption, PortOption, load_suite
from xdprepro.errors import FAILED, XdpreproError
from xdprepro.guest_ahead import choose_way, probe_guest
from xdprepro.guest_job import counted
from xdprepro.lab import Lab
from xdprepro.preflight import ERROR, OK, WARNING, Check, Place, find_checks, find_errors
from xdprepro.rehearsal import examine, find_xsk_holders
from xdprepro.scratch import start_scratch
from xdprepro.suite import Suite, parse_suite
from xdprepro.trial import read_probe
from xdprepro.working_set import resolve_lines

ORDER = (ERROR, WARNING, OK)

LabName = Annotated[str, typer.Argument(metavar="LAB", help="A folder of inventory/, or the path of an inventory.")]
CasesOption = typer.Option("--case", metavar="CASE", help="A kind of case, e.g. xsk.rxdrop; repeatable.")
SetOption = typer.Option(
    "--set", metavar="KEY=VALUE", help="A parameter of these cases, as a suite has it; repeatable."
)
SuiteOption = typer.Option("--suite", metavar="SUITE", help="All cases of a suite, where no --case is named.")
PacketsOption = typer.Option("--packets/--no-packets", help="Send a few packets, to see on which queues they arrive.")


@dataclass(slots=True)
class Finding:
    """A check, with where it was made and the cases that it is for."""

    place: str
    check: Check
    cases: list[str] = field(default_factory=list)


def doctor(
    name: LabName,
    cases: Annotated[list[str] | None, CasesOption] = None,
    settings: Annotated[list[str] | None, SetOption] = None,
    suite_name: Annotated[str, SuiteOption] = "smoke",
    packets: Annotated[bool, PacketsOption] = True,
    kernel: Annotated[list[str] | None, KernelOption] = None,
    port: Annotated[list[str] | None, PortOption] = None,
    as_json: Json = False,
) -> None:
    """What would go wrong before the first packet, and how to mend it: ports, modes, queues, memory, steering.

    On a lab of this machine, which must be up, each case is set up by its agent and ended again, and a few packets
    show where they arrive. On a lab that boots kernels each --kernel is asked with each --port what it can do.
    Exit status 1: a case would fail, or be skipped.
    """
    suite = _make_suite(cases, settings or []) if cases else load_suite(suite_name)
    lab = provision.load_lab(name)
    options = GuestOptions(kernel=tuple(kernel or ()), port=tuple(port or ()))
    if lab.boots_kernels:
        findings = _merge(_examine_guests(lab, suite, options))
    else:
        refuse_guest_options(lab, options)
        provision.check_root("doctor")
        findings = _merge(_examine_here(lab, suite, packets=packets))
    if as_json:
        print_json([{"place": one.place, **asdict(one.check), "cases": one.cases} for one in findings])
    else:
        _print_findings(findings, len(suite.cases))
    if find_errors(one.check for one in findings):
        raise typer.Exit(FAILED)


def _make_suite(kinds: Sequence[str], settings: Sequence[str]) -> Suite:
    """A suite of these kinds, so that its mistakes are told as those of any other."""
    lines = []
    for setting in settings:
        key, is_there, value = setting.partition("=")
        if not is_there:
            raise XdpreproError(f"--set {setting}: no value", hint="write --set KEY=VALUE", status=2)
        lines.append(f"{key.strip()} = {_as_toml(value.strip())}")
    rows = [f"[[case]]\ncase = {_quote(kind)}\n" + "\n".join(lines) for kind in kinds]
    return parse_suite("\n".join(rows), "of --case")


def _as_toml(value: str) -> str:
    """Words need no quotes on a command line."""
    try:
        tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return _quote(value)
    return value


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _examine_here(lab: Lab, suite: Suite, *, packets: bool) -> Iterator[tuple[str, Case, Check]]:
    with provision.start_lock(lab):
        provision.check_up(lab)
        place = Place(lab, read_probe(lab.dut), read_probe(lab.tester), find_xsk_holders(lab.dut.netns))
        for case in suite.cases:
            resolved = resolve_lines(resolve_generator(case, place.tester), place.dut)
            found = find_checks(resolved, place)
            for check in found:
                yield f"lab {lab.name}", case, check
            if not find_errors(found):
                for check in examine(resolved, place, packets=packets):
                    yield f"lab {lab.name}", case, check


def _examine_guests(lab: Lab, suite: Suite, options: GuestOptions) -> Iterator[tuple[str, Case, Check]]:
    with start_guests(lab, options, trials=None) as (variants, setup), start_scratch() as scratch:
        for number, (variant, port) in enumerate((v, p) for v in variants for p in setup.ports):
            note(f"asking {variant.label} what it can do with {port}")
            probes = probe_guest(lab, variant, port, suite, accel=setup.accel, place=scratch / str(number))
            for case in suite.cases:
                chosen, tester = choose_way(counted(case) if setup.counting else case, port, probes)
                for check in find_checks(chosen, Place(lab, probes["dut"], tester)):
                    yield f"{variant.label} {port}", case, check


def _merge(found: Iterable[tuple[str, Case, Check]]) -> list[Finding]:
    """Each check once, with all its cases; what is wrong comes first."""
    findings: dict[tuple[str, Check], Finding] = {}
    for place, case, check in found:
        findings.setdefault((place, check), Finding(place, check)).cases.append(case.id)
    return sorted(findings.values(), key=lambda one: ORDER.index(one.check.severity))


def _print_findings(findings: Sequence[Finding], cases: int) -> None:
    for place in dict.fromkeys(one.place for one in findings):
        own = [one for one in findings if one.place == place]
        rows = [
            [c.id, c.severity, c.want, c.got, c.fix, _format_cases(one.cases, cases)]
            for one in own
            for c in [one.check]
        ]
        print_table(place, ["check", "", "wanted", "got", "how to fix", "cases"], rows, left=(0, 1, 2, 3, 4, 5))
        counts: dict[str, Any] = {word: sum(one.check.severity == word for one in own) for word in ORDER}
        print(f"{len(own)} checks: {counts[ERROR]} errors, {counts[WARNING]} warnings, {counts[OK]} ok\n")


def _format_cases(ids: Sequence[str], cases: int) -> str:
    unique = list(dict.fromkeys(ids))
    return (
        "all" if len(unique) == cases else ", ".join(unique[:2]) + (f", {len(unique) - 2} more" if unique[2:] else "")
    )

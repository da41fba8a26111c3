# SPDX-License-Identifier: GPL-2.0-or-later
"""xdprepro up, xdprepro down."""

from typing import Annotated, Protocol

import typer

from xdprepro import provision
from xdprepro.cli.output import note
from xdprepro.lab import Lab

LabName = Annotated[str, typer.Argument(metavar="LAB", help="A folder of inventory/, or the path of an inventory.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would change, change nothing.")]


class Play(Protocol):
    """provision.up or provision.down."""

    def __call__(self, lab: Lab, *, check: bool) -> provision.Provisioned: ...


def up(name: LabName, dry_run: DryRun = False) -> None:
    """Provision a lab: bring it into the state that its inventory describes, read it back, check it."""
    _bring(name, "up", provision.up, dry_run=dry_run)


def down(name: LabName, dry_run: DryRun = False) -> None:
    """Put everything back: remove exactly what `up` made."""
    _bring(name, "down", provision.down, dry_run=dry_run)


def _bring(name: str, what: str, play: Play, *, dry_run: bool) -> None:
    provision.check_root(what)
    lab = provision.load_lab(name)
    with provision.start_lock(lab):
        result = play(lab, check=dry_run)
    as_wanted = result.ok - result.changed  # Ansible counts what it changed as ok, too
    if dry_run:
        note(f"lab {lab.name}: {what} would change {result.changed}, {as_wanted} are as wanted")
    else:
        note(f"lab {lab.name} is {what}: {result.changed} changed, {as_wanted} as wanted, {result.duration_s:.1f} s")

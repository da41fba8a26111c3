# SPDX-License-Identifier: GPL-2.0-or-later
"""xdprepro up, xdprepro down."""

from typing import Annotated

import typer

from xdprepro import provision
from xdprepro.cli.output import note
from xdprepro.lab import Lab

LabName = Annotated[str, typer.Argument(metavar="LAB", help="A folder of inventory/, or the path of an inventory.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would change, change nothing.")]


def up(name: LabName, dry_run: DryRun = False) -> None:
    """Provision a lab: bring it into the state that its inventory describes, read it back, check it."""
    provision.check_root("up")
    lab = provision.load_lab(name)
    with provision.start_lock(lab):
        result = provision.up(lab, check=dry_run)
    _tell(lab, "up", result, dry_run=dry_run)


def down(name: LabName, dry_run: DryRun = False) -> None:
    """Put everything back: remove exactly what `up` made."""
    provision.check_root("down")
    lab = provision.load_lab(name)
    with provision.start_lock(lab):
        result = provision.down(lab, check=dry_run)
    _tell(lab, "down", result, dry_run=dry_run)


def _tell(lab: Lab, what: str, result: provision.Provisioned, *, dry_run: bool) -> None:
    as_wanted = result.ok - result.changed  # Ansible counts what it changed as ok, too
    if dry_run:
        note(f"lab {lab.name}: {what} would change {result.changed}, {as_wanted} are as wanted")
    else:
        note(f"lab {lab.name} is {what}: {result.changed} changed, {as_wanted} as wanted, {result.duration_s:.1f} s")

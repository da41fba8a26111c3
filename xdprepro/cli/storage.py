# SPDX-License-Identifier: GPL-2.0-or-later
"""The option that says where the archive is."""

import os
from pathlib import Path
from typing import Annotated

import typer

from xdprepro import archive
from xdprepro.errors import USAGE, XdpreproError


def _parse_folder(text: str) -> Path:
    """An empty name would be the current folder, which is rarely what a script with an unset variable means."""
    if not text:
        raise XdpreproError("--archive: the name of the folder is empty", hint="use . for this folder", status=USAGE)
    return Path(text)


ArchiveDir = Annotated[
    Path | None,
    typer.Option(
        "--archive",
        metavar="DIR",
        parser=_parse_folder,
        envvar="XDPREPRO_ARCHIVE",
        help="The folder of sealed runs (default: archive/runs in the checkout).",
    ),
]


def archive_folder(directory: Path | None) -> Path:
    """Where to read; unlike archive.prepare_directory() it makes nothing, and only the default need not be there."""
    if directory is None:
        return archive.DEFAULT_DIRECTORY
    if not os.path.lexists(directory):
        raise XdpreproError(
            f"{directory}: there is no such folder", hint="check --archive or XDPREPRO_ARCHIVE", status=USAGE
        )
    return directory


RUN_HELP = "A file, a run id or its beginning, 'latest' or 'latest~N'."

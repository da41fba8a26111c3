# SPDX-License-Identifier: GPL-2.0-or-later
"""The option that says where the archive is."""

from pathlib import Path
from typing import Annotated

import typer

from xdprepro import archive

ArchiveDir = Annotated[
    Path | None,
    typer.Option(
        "--archive",
        metavar="DIR",
        envvar="XDPREPRO_ARCHIVE",
        help="The folder of sealed runs (default: archive/runs in the checkout).",
    ),
]


def archive_folder(directory: Path | None) -> Path:
    """Where to read; unlike archive.prepare_directory() it makes nothing."""
    return directory or archive.DEFAULT_DIRECTORY


RUN_HELP = "A file, a run id or its beginning, 'latest' or 'latest~N'."

# SPDX-License-Identifier: GPL-2.0-or-later
"""The result archive: journals of runs that are being measured, sealed HDF5 files of those that were.

archive/README.md has the format. Nothing else in xdprepro opens HDF5 files.
"""

from xdprepro.archive.canonical import canonical
from xdprepro.archive.check import Finding
from xdprepro.archive.find import RunInfo, find_run, list_runs
from xdprepro.archive.journal import Journal, hold_journal, read_journal
from xdprepro.archive.read import load_flags, load_run
from xdprepro.archive.recover import recover, remove_journal, unsealed
from xdprepro.archive.seal import DEFAULT_DIRECTORY, make_run_id, prepare_directory, seal
from xdprepro.archive.verify import verify_run

__all__ = [
    "DEFAULT_DIRECTORY",
    "Finding",
    "Journal",
    "RunInfo",
    "canonical",
    "find_run",
    "hold_journal",
    "list_runs",
    "load_flags",
    "load_run",
    "make_run_id",
    "prepare_directory",
    "read_journal",
    "recover",
    "remove_journal",
    "seal",
    "unsealed",
    "verify_run",
]

# SPDX-License-Identifier: GPL-2.0-or-later
"""Disks that refuse: small ones, read-only ones, and a limit on the size of files."""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import need

NOBODY = 65534


@contextmanager
def start_tmpfs(path: Path, *, size_kib: int) -> Iterator[Path]:
    """A file system of its own with so much room."""
    need(os.geteuid() == 0, "needs root to mount: run the tests with sudo")
    path.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", f"size={size_kib}k", "tmpfs", str(path)]
    mounted = subprocess.run(argv, capture_output=True, text=True, check=False)
    need(mounted.returncode == 0, f"cannot mount a tmpfs: {mounted.stderr}; run the tests where mounting is allowed")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


@contextmanager
def start_read_only(path: Path) -> Iterator[None]:
    """Make a mounted file system read-only for a while."""
    subprocess.run(["mount", "-o", "remount,ro", str(path)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(path)], check=True)


@contextmanager
def start_file_limit(size_bytes: int) -> Iterator[None]:
    """No file of this process may grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def start_as_nobody() -> Iterator[None]:
    """Act as an ordinary user."""
    need(os.geteuid() == 0, "needs root to become another user: run the tests with sudo")
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def fill(path: Path) -> None:
    """Leave no free byte."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return

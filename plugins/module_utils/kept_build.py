# SPDX-License-Identifier: GPL-2.0-or-later
"""Build directories that are kept: make must see every file that changed, and none may change while it looks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.xdprepro.lab.plugins.module_utils.kbuild import Tree
from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_cache import KernelFailure

STAMP = "began"


def prepare(tree: Tree, config: str) -> int:
    """Make the directory ready for make, and say when its build begins."""
    tree.output.mkdir(parents=True, exist_ok=True)
    (tree.output / "build.log").unlink(missing_ok=True)
    began_ns = time.time_ns()
    stamp = tree.output / STAMP
    if stamp.exists():
        freshen(tree.path, stamp.stat().st_mtime_ns)
    stamp.touch()
    os.utime(stamp, ns=(began_ns, began_ns))
    path = tree.output / ".config"
    if not path.exists() or path.read_text() != config:
        path.write_text(config)
    return time.time_ns()


def freshen(tree: Path, since_ns: int) -> None:
    """Make what changed since then look new.

    Archives and copies give files their old times, which make believes; when an inode changed cannot be set.
    """
    for path in _iter_files(tree):
        found = path.lstat()
        if found.st_ctime_ns >= since_ns > found.st_mtime_ns and not path.is_symlink():
            os.utime(path)


def check_unchanged(tree: Path, since_ns: int, log: Path) -> None:
    """A kernel that was built from two states of a source must not be kept as if from one."""
    for path in _iter_files(tree):
        if path.lstat().st_ctime_ns >= since_ns:
            fact = f"{path.relative_to(tree)} changed while the kernel was built"
            raise KernelFailure("source_changed", fact, hint="build it again", log=log)


def _iter_files(tree: Path) -> Iterator[Path]:
    for top, directories, names in os.walk(tree):
        directories[:] = [name for name in directories if name != ".git"]
        yield from (Path(top, name) for name in names)

# SPDX-License-Identifier: GPL-2.0-or-later
"""Source trees in the cache: whole or absent, and changed by one at a time."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ansible_collections.xdprepro.lab.plugins.module_utils import kernel_cache
from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_cache import KernelFailure

UNPACKED = "unpacked"
# What every kernel has had at its top for a long time.
TOP = ("Makefile", "Kconfig", "arch", "drivers/net")


def tree_path(cache: Path, name: str) -> Path:
    return cache / "sources" / name


@contextmanager
def start_tree(tree: Path) -> Iterator[Path | None]:
    """A directory to work in, of which UNPACKED becomes the tree if all goes well; None where there is one already."""
    staging = tree.with_name(f".{tree.name}.new")
    with kernel_cache.start_lock(lock_path(tree)):
        if tree.exists():
            yield None
            return
        shutil.rmtree(staging, ignore_errors=True)
        (staging / UNPACKED).mkdir(parents=True)
        try:
            yield staging
            find_top(staging / UNPACKED).replace(tree)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def is_there(tree: str) -> bool:
    """A role in check mode may have named one that it would make, or none as its package is not known yet."""
    return bool(tree) and Path(tree).is_dir()


def lock_path(tree: Path) -> Path:
    return tree.with_name(f"{tree.name}.lock")


@contextmanager
def start_reading(tree: Path, cache: Path) -> Iterator[None]:
    """Keep a tree of the cache from being removed or changed; nothing is written beside a tree of the user's."""
    if tree.parent != cache / "sources":
        yield
        return
    with kernel_cache.start_lock(lock_path(tree), shared=True):
        yield


def unpack(archive: Path, staging: Path, *, what: str, poll: Callable[[], None] | None = None) -> None:
    """GNU tar refuses what would leave the directory: names with '..', and links that lead elsewhere come last."""
    # A name like "-" or "host:file" would be no file to tar.
    place = ["--file", archive.absolute(), "--force-local", "--directory", staging / UNPACKED]
    argv = ["tar", "--extract", *place, "--no-same-owner", "--no-same-permissions"]
    try:
        kernel_cache.run(argv, what=what, poll=poll)
    except KernelFailure as failure:
        raise KernelFailure("damaged", str(failure), hint="get the archive again") from None


def find_top(directory: Path) -> Path:
    """The kernel's own top: archives hold one directory of any name, or the files themselves."""
    inside = list(directory.iterdir())
    top = inside[0] if len(inside) == 1 and inside[0].is_dir() and not inside[0].is_symlink() else directory
    check_top(top)
    return top


def check_top(top: Path) -> None:
    missing = [name for name in TOP if not (top / name).exists()]
    if missing:
        raise KernelFailure("no_source", f"no source of a Linux kernel: there is no {', '.join(missing)} in it")

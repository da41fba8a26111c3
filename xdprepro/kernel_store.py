# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache of kernels on disk: what is there, who uses it, and what can go."""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from xdprepro.errors import PRIVILEGE, STORAGE, USAGE, XdpreproError
from xdprepro.kernel import MANIFEST, Kernel, KernelError, cache_directory, read_kernel

READY, IN_USE, BEING_MADE, INTERRUPTED, DAMAGED = "ready", "in use", "being made", "interrupted", "damaged"
SECONDS_A_DAY = 86400.0

# What kernels are made with, beside the kernels themselves; the first word is the directory.
AREAS = {
    "sources": "source trees and git mirrors",
    "builds": "build directories",
    "ccache": "compiled objects",
    "apt": "package lists",
    "asked": "what specs were found to be",
}


@dataclass(frozen=True)
class Entry:
    """A directory of the cache; `kernel` is None where it is not whole."""

    key: str
    path: Path
    state: str
    size_bytes: int
    used_s: float  # when it was made or last asked for, as time.time()
    kernel: Kernel | None


@dataclass(frozen=True)
class Pruned:
    """What went, or would go, and what stayed although it was named, with the reason."""

    removed: tuple[tuple[str, int], ...]  # name and bytes
    kept: tuple[tuple[str, str], ...]

    @property
    def freed_bytes(self) -> int:
        return sum(size_bytes for _, size_bytes in self.removed)


def kernel_directory(key: str) -> Path:
    return cache_directory() / "kernels" / key


def load_kernel(key: str) -> Kernel:
    """The whole kernel of that key; that it was asked for is written down."""
    if not (kernel_directory(key) / MANIFEST).exists():
        raise KernelError(
            f"no kernel {key} in {cache_directory()}",
            reason="no_such_kernel",
            hint="'xdprepro kernel list' shows those that are there",
            status=USAGE,
        )
    kernel = read_kernel(kernel_directory(key))
    with suppress(OSError):  # the cache may be somebody else's, who lets us read
        os.utime(kernel_directory(key))
    return kernel


@contextmanager
def start_use(kernel: Kernel) -> Iterator[None]:
    """Keep the kernel from being pruned."""
    with open_lock(lock_path(kernel.key)) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        load_kernel(kernel.key)  # it may have gone since it was found
        yield


def list_entries() -> list[Entry]:
    """Everything in the cache of kernels, those used last at the end."""
    directory = cache_directory() / "kernels"
    paths = [path for path in directory.iterdir() if path.is_dir()] if directory.is_dir() else []
    return sorted(map(_read_entry, paths), key=lambda entry: (entry.used_s, entry.key))


def prune(
    keys: Sequence[str] = (),
    *,
    older_than_days: float | None = None,
    everything: bool = False,
    dry_run: bool = False,
) -> Pruned:
    """Remove what is named, or unused for so long; always what interrupted commands left, never what is in use."""
    entries = list_entries()
    _check_named(keys, entries)
    limit_s = None if older_than_days is None else time.time() - older_than_days * SECONDS_A_DAY
    removed, kept = [], []
    for entry in entries:
        old = limit_s is not None and entry.used_s < limit_s
        if not (everything or old or entry.key in keys or entry.state == INTERRUPTED):
            continue
        reason = _remove(entry, dry_run=dry_run)
        kept += [(entry.key, reason)] if reason else []
        removed += [] if reason else [(entry.key, entry.size_bytes)]
    for area in AREAS if everything else ():
        size_bytes, reason = _remove_area(area, dry_run=dry_run)
        kept += [(area, reason)] if reason else []
        removed += [(area, size_bytes)] if size_bytes and not reason else []
    return Pruned(tuple(removed), tuple(kept))


def lock_path(key: str) -> Path:
    return cache_directory() / "locks" / f"{key}.lock"


@contextmanager
def open_lock(path: Path) -> Iterator[IO[str]]:
    """The file to lock. It stays for ever: removing it would let two hold locks of one name."""
    with name_cache():
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    with file:
        yield file


@contextmanager
def name_cache() -> Iterator[None]:
    """What the file system refuses is for the user to mend."""
    try:
        yield
    except OSError as error:
        where = error.filename or cache_directory()
        denied = isinstance(error, PermissionError)
        hint = "name a directory of yours in XDPREPRO_CACHE" if denied else "free some space, or set XDPREPRO_CACHE"
        raise XdpreproError(f"{where}: {error.strerror}", hint=hint, status=PRIVILEGE if denied else STORAGE) from None


def _read_entry(path: Path) -> Entry:
    key = path.name.removeprefix(".").removesuffix(".new") if path.name.startswith(".") else path.name
    used_s, kernel, state = path.stat().st_mtime, None, INTERRUPTED
    if (path / MANIFEST).exists() and path.name == key:
        try:
            kernel, state = read_kernel(path), READY
        except KernelError:
            state = DAMAGED
    if _is_locked(lock_path(key)):
        state = IN_USE if kernel else BEING_MADE
    return Entry(key, path, state, kernel.size_bytes if kernel else _size_of(path), used_s, kernel)


def _is_locked(path: Path) -> bool:
    try:
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is none, or it is not ours to open
        return False
    return False


def _check_named(keys: Sequence[str], entries: Sequence[Entry]) -> None:
    known = {entry.key for entry in entries}
    for key in keys:
        if key not in known:
            hint = f"there are: {', '.join(sorted(known))}" if known else "the cache is empty"
            raise KernelError(f"no kernel {key} in the cache", reason="no_such_kernel", hint=hint, status=USAGE)


def _remove(entry: Entry, *, dry_run: bool) -> str:
    """Why not, or nothing."""
    if entry.state in (IN_USE, BEING_MADE):
        return entry.state
    if dry_run:
        return ""
    with open_lock(lock_path(entry.key)) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return IN_USE
        with name_cache():
            # Without its manifest it counts no more, however this ends.
            (entry.path / MANIFEST).unlink(missing_ok=True)
            shutil.rmtree(entry.path)
    return ""


def _remove_area(area: str, *, dry_run: bool) -> tuple[int, str]:
    """Its size, and why it was not removed; lock files stay."""
    directory = cache_directory() / area
    if not directory.is_dir():
        return 0, ""
    locks = [*directory.glob("*.lock"), lock_path(area)]
    with ExitStack() as stack:
        for path in locks:
            file = stack.enter_context(open_lock(path))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return 0, IN_USE
        size_bytes = _size_of(directory)
        if not dry_run:
            with name_cache():
                _empty(directory)
    return size_bytes, ""


def _empty(directory: Path) -> None:
    for path in directory.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.suffix != ".lock":
            path.unlink()


def _size_of(directory: Path) -> int:
    """Of what is there; it may be changing."""
    total = 0
    for top, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(top, name)).st_size  # noqa: PTH118  # fast, of a source tree
    return total

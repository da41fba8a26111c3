# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache of kernels on disk: what is there, who uses it, and what can go."""

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from xdprepro.errors import USAGE
from xdprepro.kernel import MANIFEST, Kernel, KernelError, cache_directory, read_kernel
from xdprepro.kernel_lock import MAKER, WORK, find_holder, lock_path, name_cache, open_lock, take_idle, try_lock

READY, IN_USE, BEING_MADE, INTERRUPTED, DAMAGED = "ready", "in use", "being made", "interrupted", "damaged"
SECONDS_A_DAY = 86400.0

# What is in the cache beside kernels and locks, by its name there. Python environments are no part of it.
AREAS = {
    "sources": "source trees and git mirrors",
    "builds": "build directories",
    "configs": "configurations of builds",
    "ccache": "compiled objects",
    "apt": "package lists",
    "asked": "what specs were found to be",
    "play": "what Ansible worked with",
    "tests": "what tests keep",
    "accel.json": "whether guests run under KVM",
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


def check_image(kernel: Kernel) -> None:
    """Refuse an image that was changed in the cache: what is booted must be what an archive will say it was."""
    if hashlib.sha256(kernel.image.read_bytes()).hexdigest() != kernel.image_sha256:
        raise KernelError(
            f"kernel {kernel.key}: {kernel.image.name} is not what was put into the cache: its SHA-256 differs",
            reason="damaged",
            hint=f"'xdprepro kernel prune {kernel.key}' removes it, and the next run gets it anew",
        )


def list_entries() -> list[Entry]:
    """Everything in the cache of kernels, those used last at the end."""
    directory = cache_directory() / "kernels"
    paths: list[Path] = []
    with suppress(FileNotFoundError):
        paths = [path for path in directory.iterdir() if path.is_dir()]
    entries = [entry for path in paths if (entry := _read_entry(path))]
    return sorted(entries, key=lambda entry: (entry.used_s, entry.key))


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
    for area, size_bytes, reason in _remove_areas(dry_run=dry_run) if everything else ():
        kept += [(area, reason)] if reason else []
        removed += [] if reason else [(area, size_bytes)]
    return Pruned(tuple(removed), tuple(kept))


def _read_entry(path: Path) -> Entry | None:
    """Nothing where it has just gone: another command may prune."""
    key = path.name.removeprefix(".").removesuffix(".new") if path.name.startswith(".") else path.name
    try:
        used_s = path.stat().st_mtime
    except FileNotFoundError:
        return None
    kernel, state = None, INTERRUPTED
    if (path / MANIFEST).exists() and path.name == key:
        try:
            kernel, state = read_kernel(path), READY
        except KernelError:
            state = DAMAGED
    if holder := find_holder(lock_path(key)):
        state = BEING_MADE if holder == MAKER and not kernel else IN_USE
    return Entry(key, path, state, kernel.size_bytes if kernel else _size_of(path), used_s, kernel)


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
        if not take_idle(file):
            return IN_USE
        with name_cache():
            # Without its manifest it counts no more, however this ends.
            (entry.path / MANIFEST).unlink(missing_ok=True)
            with suppress(FileNotFoundError):  # another prune was faster
                shutil.rmtree(entry.path)
    return ""


def _remove_areas(*, dry_run: bool) -> list[tuple[str, int, str]]:
    """Each that is not empty with its size, and why it was not removed."""
    sizes = {area: size_bytes for area in AREAS if (size_bytes := _size_of(cache_directory() / area))}
    if not sizes:
        return []
    # Who wants to fetch or build meanwhile, waits.
    with open_lock(lock_path(WORK)) as file:
        if not try_lock(file, fcntl.LOCK_EX):
            return [(area, size_bytes, IN_USE) for area, size_bytes in sizes.items()]
        return [(area, size_bytes, _remove_area(area, dry_run=dry_run)) for area, size_bytes in sizes.items()]


def _remove_area(area: str, *, dry_run: bool) -> str:
    """Why not, or nothing; lock files stay. Roles that others play hold those within the area only."""
    path = cache_directory() / area
    with ExitStack() as stack:
        for lock in (*path.glob("*.lock"), lock_path(area)):
            if not try_lock(stack.enter_context(open_lock(lock)), fcntl.LOCK_EX):
                return IN_USE
        if not dry_run:
            with name_cache():
                _empty(path)
    return ""


def _empty(area: Path) -> None:
    for path in area.iterdir() if area.is_dir() else [area] if area.exists() else []:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.suffix != ".lock":
            path.unlink()


def _size_of(path: Path) -> int:
    """Of the files that are there; they may be changing."""
    total = path.stat().st_size if path.is_file() else 0
    for top, _, names in os.walk(path):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(top, name)).st_size  # noqa: PTH118  # fast, of a source tree
    return total

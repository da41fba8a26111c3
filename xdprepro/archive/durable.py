# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that are there whole or not at all, and what is said when the disk refuses."""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from xdprepro.errors import BUSY, STORAGE, XdpreproError

_HINTS = {
    0: "move it out of the archive",  # not of the system, but of open_file()
    errno.ENOSPC: "free some space there, or choose another folder with --archive",
    errno.EDQUOT: "free some of your quota, or choose another folder with --archive",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f), or choose another folder with --archive",
    errno.EROFS: "mount it writable, or choose another folder with --archive",
    errno.EACCES: "give this user write permission, or choose another folder with --archive",
    errno.EPERM: "give this user write permission, or choose another folder with --archive",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "choose a folder with --archive; a part of this path is a file",
    errno.EIO: "check the disk (dmesg), or choose another folder with --archive",
}


# A run holds its journal open, wherever the folder goes; what is opened by name afterwards is not found.
_MOVED = "if the folder was moved, the journal is in it: 'xdprepro archive recover --archive NEW' seals the run there"


def storage_error(error: OSError, path: Path, doing: str, *, moved: bool = False) -> XdpreproError:
    """The error for a user whose disk refused: which file, why, what was being done, what to do now.

    With `moved`, a file that is not there may be one of a run whose folder was moved away.
    """
    reason = os.strerror(error.errno) if error.errno else str(error)
    hint = _HINTS.get(error.errno or 0, "choose another folder with --archive")
    if moved and error.errno == errno.ENOENT:
        hint = _MOVED
    return XdpreproError(f"{path}: {reason}, while {doing}", hint=hint, status=STORAGE)


def open_file(path: Path) -> int:
    """A file descriptor to read from; never one of a pipe, a device or a folder, and no waiting for the other end."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError("not a regular file")
    return fd


def read_file(path: Path) -> bytes:
    """All bytes of a regular file."""
    with open(open_file(path), "rb") as file:
        return file.read()


def list_files(folder: Path, suffix: str) -> list[Path]:
    """The visible files of a folder that end so, in order of their names; a folder that is not there has none."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == suffix and not path.name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise storage_error(error, folder, "listing it") from None


def sidecar(path: Path) -> Path:
    """The file with the SHA-256 of a sealed file, in the form of sha256sum(1)."""
    return path.with_name(f"{path.name}.sha256")


def sync_directory(path: Path) -> None:
    """Make new names in a folder last."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_durably(
    path: Path, data: bytes, *, doing: str, check: Callable[[Path], None] = lambda _: None, replace: bool = False
) -> None:
    """Make a read-only file that is there whole or not at all: hidden part, fsync, check, rename, fsync of the folder.

    A part that a crash left is written over. A file that is there with other content stays, unless it may be replaced.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        with _lock_part(part) as fd:
            if path.exists() and not replace:
                _keep(path, data)
            else:
                os.ftruncate(fd, 0)
                _write_all(fd, data)
                os.fsync(fd)
                check(part)
                part.rename(path)
                sync_directory(path.parent)
            path.chmod(0o444)
    except OSError as error:
        raise storage_error(error, path, doing, moved=True) from None


def lock_now(fd: int, busy: str) -> None:
    """Lock an open file, or raise XdpreproError(status=BUSY) with the fact that somebody else has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise XdpreproError(busy, hint="wait for it to end", status=BUSY) from None


@contextlib.contextmanager
def _lock_part(part: Path) -> Iterator[int]:
    """The open part, for one writer at a time; it does not outlive the block."""
    fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        lock_now(fd, f"{part}: another command is writing it")
        try:
            yield fd
        finally:
            # By now the name may be gone, or be that of another writer's part.
            with contextlib.suppress(OSError):
                if os.path.samestat(part.stat(), os.fstat(fd)):
                    part.unlink()
    finally:
        os.close(fd)


def _keep(path: Path, data: bytes) -> None:
    if read_file(path) != data:
        raise XdpreproError(
            f"{path}: is there already, with other content",
            hint=f"check it with 'xdprepro archive verify {path}'; move it away if it is damaged",
            status=STORAGE,
        )


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]

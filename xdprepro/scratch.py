# SPDX-License-Identifier: GPL-2.0-or-later
"""Directories for what only one command reads; those of commands that were killed are removed by the next one."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xdprepro.errors import STORAGE, XdpreproError

PREFIX = "xdprepro-scratch-"  # nobody else's, as what has this name and no owner is removed


@contextmanager
def start_scratch() -> Iterator[Path]:
    """An empty directory among the temporary files, ours until the end; TMPDIR names the place."""
    try:
        place = Path(tempfile.gettempdir())
        _remove_left(place)
        path, fd = _make_locked(place)
    except OSError as error:
        where = error.filename or "the directory for temporary files"
        raise XdpreproError(f"{where}: {error.strerror}", hint="set TMPDIR", status=STORAGE) from None
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(fd)


def _make_locked(place: Path) -> tuple[Path, int]:
    """The kernel drops the lock with this process, however it ends."""
    path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with suppress(FileNotFoundError):
        if os.path.samestat(path.stat(), os.fstat(fd)):
            return path, fd
    os.close(fd)  # another command removed it before we had the lock
    return _make_locked(place)


def _remove_left(place: Path) -> None:
    """What has no owner any more; of other users nothing."""
    for path in place.glob(f"{PREFIX}*"):
        with suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(fd).st_uid == os.geteuid():
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(fd)

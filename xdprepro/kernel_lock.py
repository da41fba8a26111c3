# SPDX-License-Identifier: GPL-2.0-or-later
"""The locks of the cache: of a kernel, shared by those who use it, and of all who fetch or build."""

import errno
import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from xdprepro.errors import PRIVILEGE, STORAGE, XdpreproError
from xdprepro.kernel import cache_directory

USERS, MAKER = "users", "maker"
WORK = "work"  # the lock that all who fetch or build share
LOOK = "look"  # the lock of those who try the locks of kernels, so that none takes another one for a user


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
        status = PRIVILEGE if isinstance(error, PermissionError) else STORAGE
        raise XdpreproError(f"{where}: {error.strerror}", hint=_cache_hint(error), status=status) from None


def find_holder(path: Path) -> str:
    """Who holds the lock of a kernel, if anybody: users share it, and who makes the kernel does not."""
    try:
        with lock_path(LOOK).open("a") as look, path.open("r+") as file:
            fcntl.flock(look, fcntl.LOCK_EX)  # let go after the other
            return "" if try_lock(file, fcntl.LOCK_EX) else USERS if try_lock(file, fcntl.LOCK_SH) else MAKER
    except OSError:  # there is none, or it is not ours to open
        return ""


def take_idle(file: IO[str]) -> bool:
    """Take the lock of a kernel that nobody uses or makes."""
    with open_lock(lock_path(LOOK)) as look:
        fcntl.flock(look, fcntl.LOCK_EX)
        return try_lock(file, fcntl.LOCK_EX)


def try_lock(file: IO[str], mode: int) -> bool:
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _cache_hint(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "name a directory of yours in XDPREPRO_CACHE"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space, or name another directory in XDPREPRO_CACHE"
    return "name another directory in XDPREPRO_CACHE"

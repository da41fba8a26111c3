# SPDX-License-Identifier: GPL-2.0-or-later
"""The journal of a run: every record on disk as soon as it is known, so that a crash costs at most the last second.

One record a line, `<length> <crc32c> <JSON>`; archive/README.md has the records.
"""

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import google_crc32c

from xdprepro.archive.durable import lock_now, open_file, read_file, storage_error, sync_directory
from xdprepro.errors import BUSY, STORAGE, USAGE, XdpreproError

FOLDER = "journal"
SYNC_EVERY_S = 1.0
RUN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")
_LINE = re.compile(rb"([0-9]{1,12}) ([0-9a-f]{8}) (.*)", re.DOTALL)
# What a crash leaves behind the last whole record: the beginning of one, and room that the disk never filled.
_CRASH_TAIL = re.compile(rb"(?:[0-9]{1,12}(?: [0-9a-f]{0,8}|(?: [0-9a-f]{8} [ -~]*))?)?\0*")


def journal_path(directory: Path, run_id: str) -> Path:
    """Where the journal of a run lies."""
    return directory / FOLDER / f"{run_id}.journal"


class Journal:
    """The journal of a run that is being measured, begun with its `run` record. Its lock says that the writer lives."""

    def __init__(self, directory: Path, head: Mapping[str, Any]) -> None:
        if not RUN_ID.fullmatch(head["run_id"]):
            raise XdpreproError(
                f"run id {head['run_id']!r} is no file name", hint="use letters and digits", status=USAGE
            )
        self.path = journal_path(directory, head["run_id"])
        self._end = 0
        self._synced_s = time.monotonic()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            raise XdpreproError(
                f"{self.path}: the journal of this run is there already",
                hint="run 'xdprepro archive recover' to seal what an earlier run left",
                status=STORAGE,
            ) from None
        except OSError as error:
            raise storage_error(error, self.path, "beginning the journal of a run") from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.append(head)
            self.sync()
            sync_directory(self.path.parent)
        except (OSError, XdpreproError) as error:
            os.close(self._fd)
            with contextlib.suppress(OSError):
                self.path.unlink()
            if isinstance(error, OSError):
                raise storage_error(error, self.path, "beginning the journal of a run") from None
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # A journal that was sealed and removed meanwhile needs no sync.
            if os.fstat(self._fd).st_nlink:
                self.sync()
        finally:
            os.close(self._fd)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record, whole or not at all; once a second this waits until all of them are on disk."""
        line = format_record(record)
        try:
            written = os.write(self._fd, line)
            while written < len(line):
                written += os.write(self._fd, line[written:])
        except OSError as error:
            # What was written of the line would only be taken for the mark of a crash, but leave none if possible.
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._end)
            raise storage_error(error, self.path, f"writing a {record.get('rec')!r} record") from None
        self._end += len(line)
        if time.monotonic() - self._synced_s >= SYNC_EVERY_S:
            self.sync()

    def sync(self) -> None:
        """Wait until everything appended is on disk."""
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise storage_error(error, self.path, "writing the journal") from None
        self._synced_s = time.monotonic()


def format_record(record: Mapping[str, Any]) -> bytes:
    """A record as a line."""
    data = json.dumps(record, separators=(",", ":"), allow_nan=False).encode("ascii")
    return b"%d %08x %s\n" % (len(data), google_crc32c.value(data), data)


def read_journal(path: Path) -> list[dict[str, Any]]:
    """All whole records. What a crash leaves at the end is passed over; anything else unreadable is an error."""
    try:
        data = read_file(path)
    except OSError as error:
        raise storage_error(error, path, "reading the journal", moved=True) from None
    records: list[dict[str, Any]] = []
    offset = 0
    for line in data.split(b"\n"):
        record = _parse_record(line)
        if record is None:
            break
        records.append(record)
        offset += len(line) + 1
    if not _CRASH_TAIL.fullmatch(data, offset):
        raise XdpreproError(
            f"{path}: damaged at byte {offset}, and not as a crash leaves the end of a journal",
            hint=f"restore it; or, in a copy of it, 'truncate --size {offset}' keeps the {len(records)} records before",
            status=STORAGE,
        )
    return records


def _parse_record(line: bytes) -> dict[str, Any] | None:
    found = _LINE.fullmatch(line)
    if not found or int(found[1]) != len(found[3]) or int(found[2], 16) != google_crc32c.value(found[3]):
        return None
    try:
        record = json.loads(found[3])
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


@contextlib.contextmanager
def hold_journal(path: Path) -> Iterator[None]:
    """Keep others off a journal whose writer is gone; one that is still being written is refused."""
    try:
        fd = open_file(path)
    except OSError as error:
        raise storage_error(error, path, "reading the journal") from None
    try:
        lock_now(fd, f"{path}: its run is still being measured or sealed")
        if not os.fstat(fd).st_nlink:
            raise XdpreproError(f"{path}: has just been sealed by another command", status=BUSY)
        yield
    finally:
        os.close(fd)

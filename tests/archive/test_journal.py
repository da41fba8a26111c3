# SPDX-License-Identifier: GPL-2.0-or-later
"""The journal: what is appended comes back, whatever ends the writer."""

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from disks import fill, start_as_nobody, start_file_limit, start_read_only, start_tmpfs
from made import journal_records, make_run

from xdprepro.archive import Journal, hold_journal, load_run, read_journal, recover, seal, unsealed
from xdprepro.errors import BUSY, STORAGE, USAGE, XdpreproError
from xdprepro.sample import parse_journal

FORK = multiprocessing.get_context("fork")
RECORDS = list(journal_records(make_run()))


def write_journal(directory: Path, records: list[dict[str, Any]]) -> Path:
    with Journal(directory, records[0]) as journal:
        for record in records[1:]:
            journal.append(record)
    return journal.path


def test_records_come_back_in_order(tmp_path: Path) -> None:
    assert read_journal(write_journal(tmp_path, RECORDS)) == RECORDS


def test_a_run_comes_back_from_its_journal(tmp_path: Path) -> None:
    assert parse_journal(read_journal(write_journal(tmp_path, RECORDS))) == make_run()


def test_each_line_has_length_and_checksum(tmp_path: Path) -> None:
    path = write_journal(tmp_path, [RECORDS[0], {"rec": "end"}])
    assert path.read_bytes().splitlines()[-1] == b'13 %08x {"rec":"end"}' % crc32c(b'{"rec":"end"}')


def crc32c(data: bytes) -> int:
    """Bit by bit, after the definition: reflected polynomial 0x82f63b78."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_journal_cut_at_any_byte_keeps_every_whole_record(tmp_path: Path) -> None:
    records = RECORDS[:8]
    path = write_journal(tmp_path, records)
    data = path.read_bytes()
    ends = [at for at, byte in enumerate(data) if byte == ord("\n")]
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        assert read_journal(path) == records[: sum(end <= cut for end in ends)], cut


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"17 deadbeef {", b"17 dead\0\0", b"9"])
def test_cut_record_and_unfilled_room_are_what_a_crash_leaves(tmp_path: Path, tail: bytes) -> None:
    path = write_journal(tmp_path, RECORDS)
    path.write_bytes(path.read_bytes() + tail)
    assert read_journal(path) == RECORDS


@pytest.mark.parametrize("tail", [b"17 deadbeef {}\n", b"\xff", b"\0\n", b"\r\n", b"rec", b"17 deadbeef {\0}"])
def test_rubbish_at_the_end_is_damage_that_is_named(tmp_path: Path, tail: bytes) -> None:
    path = write_journal(tmp_path, RECORDS)
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    with pytest.raises(XdpreproError, match=f"{path}: damaged at byte {len(whole)},") as caught:
        read_journal(path)
    assert f"truncate --size {len(whole)}" in caught.value.hint
    os.truncate(path, len(whole))
    assert read_journal(path) == RECORDS


def test_archive_moved_away_during_a_run_is_said_and_recovered_there(tmp_path: Path) -> None:
    with Journal(tmp_path / "old", RECORDS[0]) as journal:
        (tmp_path / "old").rename(tmp_path / "new")
        for record in RECORDS[1:]:
            journal.append(record)
        with pytest.raises(XdpreproError, match=f"{journal.path}: No such file") as caught:
            read_journal(journal.path)
        with pytest.raises(XdpreproError, match="No such file or directory, while sealing run") as sealing:
            seal(make_run(), tmp_path / "old", {}, ())
    for error in (caught.value, sealing.value):
        assert error.status == STORAGE
        assert "xdprepro archive recover --archive NEW" in error.hint
    path = recover(tmp_path / "new/journal" / journal.path.name, lambda run: ({}, ()))
    assert path
    assert load_run(path) == make_run()


@pytest.mark.parametrize("where", ["length", "checksum", "content", "end of line"])
def test_damage_before_a_whole_record_names_file_and_byte(tmp_path: Path, where: str) -> None:
    path = write_journal(tmp_path, RECORDS)
    lines = path.read_bytes().splitlines(keepends=True)
    offset = sum(map(len, lines[:5]))
    at = (
        offset
        + {"length": 0, "checksum": lines[5].index(b" ") + 1, "content": 40, "end of line": len(lines[5]) - 1}[where]
    )
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(XdpreproError, match=f"{path}: damaged at byte {offset},") as caught:
        read_journal(path)
    assert caught.value.status == STORAGE


def test_second_writer_of_a_run_is_refused(tmp_path: Path) -> None:
    with Journal(tmp_path, RECORDS[0]) as journal:
        with pytest.raises(XdpreproError, match=f"{journal.path}: the journal of this run is there already") as caught:
            Journal(tmp_path, RECORDS[0])
        assert caught.value.status == STORAGE
        journal.append(RECORDS[1])
    assert read_journal(journal.path) == RECORDS[:2]


@pytest.mark.parametrize("run_id", ["", "../x", "a/b", ".hidden", "x" * 101])
def test_run_id_that_is_no_file_name_is_refused(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(XdpreproError, match="is no file name") as caught:
        Journal(tmp_path, {**RECORDS[0], "run_id": run_id})
    assert caught.value.status == USAGE
    assert list(tmp_path.rglob("*")) == []


def append_until_refused(directory: Path) -> tuple[Path, int, XdpreproError]:
    """The journal, how many records it took, and how it refused the next."""
    taken = 1
    with Journal(directory, RECORDS[0]) as journal:
        with pytest.raises(XdpreproError) as caught:
            while taken < 100_000:
                journal.append(RECORDS[taken % 20 + 5])
                taken += 1
        return journal.path, taken, caught.value


def test_full_disk_is_named_and_whole_records_stay(tmp_path: Path) -> None:
    with start_tmpfs(tmp_path / "small", size_kib=256) as small:
        path, taken, error = append_until_refused(small)
        assert error.status == STORAGE
        assert error.message.startswith(f"{path}: No space left on device, while writing a ")
        assert "free some space" in error.hint
        assert len(read_journal(path)) == taken
        assert path.read_bytes().endswith(b"}\n")


def test_journal_on_a_full_disk_is_not_begun(tmp_path: Path) -> None:
    with start_tmpfs(tmp_path / "small", size_kib=64) as small:
        (small / "journal").mkdir()
        fill(small / "filler")
        with pytest.raises(XdpreproError, match="No space left on device") as caught:
            Journal(small, RECORDS[0])
        assert caught.value.status == STORAGE
        assert list((small / "journal").iterdir()) == []


def test_file_size_limit_is_named_and_whole_records_stay(tmp_path: Path) -> None:
    with start_file_limit(100_001):
        path, taken, error = append_until_refused(tmp_path)
    assert error.status == STORAGE
    assert "File too large" in error.message
    assert len(read_journal(path)) == taken
    assert path.read_bytes().endswith(b"}\n")


def test_read_only_disk_is_named(tmp_path: Path) -> None:
    with start_tmpfs(tmp_path / "disk", size_kib=256) as disk, start_read_only(disk):
        with pytest.raises(XdpreproError, match=f"{disk}.*Read-only file system") as caught:
            Journal(disk, RECORDS[0])
        assert caught.value.status == STORAGE
        assert "writable" in caught.value.hint


def test_folder_of_another_user_is_named(tmp_path: Path) -> None:
    with start_as_nobody(), pytest.raises(XdpreproError, match=f"{tmp_path}.*Permission denied") as caught:
        Journal(tmp_path / "runs", RECORDS[0])
    assert caught.value.status == STORAGE
    assert "permission" in caught.value.hint


def start_writer(directory: Path, records: list[dict[str, Any]]) -> Any:
    """A process that has written a journal, and keeps it open until it is killed."""
    ours, theirs = FORK.Pipe()

    def write() -> None:
        with Journal(directory, records[0]) as journal:
            for record in records[1:]:
                journal.append(record)
            theirs.send("written")
            signal.pause()

    process = FORK.Process(target=write)
    process.start()
    assert ours.poll(30)
    return process


def test_journal_of_a_living_writer_is_left_alone(tmp_path: Path) -> None:
    process = start_writer(tmp_path, RECORDS[:40])
    path = next((tmp_path / "journal").iterdir())
    try:
        assert unsealed(tmp_path) == []
        with pytest.raises(XdpreproError, match="still being measured") as caught, hold_journal(path):
            pass
        assert caught.value.status == BUSY
        with pytest.raises(XdpreproError, match="still being measured"):
            recover(path, lambda run: ({}, ()))
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    assert unsealed(tmp_path) == [path]
    # Written to the page cache is enough to outlive the process.
    assert read_journal(path) == RECORDS[:40]

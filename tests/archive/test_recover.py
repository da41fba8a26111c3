# SPDX-License-Identifier: GPL-2.0-or-later
"""Killed at any moment: what is sealed is readable, what is not can be recovered, and nothing is left over."""

import gzip
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made import FLAG_NAMES, journal_records, make_flags, make_run
from made_trials import make_case_run

from xdprepro.archive import (
    Journal,
    canonical,
    load_run,
    read_journal,
    recover,
    remove_journal,
    seal,
    unsealed,
    verify_run,
)
from xdprepro.archive.journal import format_record
from xdprepro.cases import Case
from xdprepro.errors import BUSY, STORAGE, XdpreproError
from xdprepro.sample import Run, parse_journal

FORK = multiprocessing.get_context("fork")
CASE = "xsk.rxdrop.native.copy.60B"
KILLS = 40


def small_run(run_id: str = "01900000-0000-7000-8000-000000000001") -> Run:
    run = make_run(run_id=run_id, boots=1, trials=2, samples=2, documents={})
    trials = [trial for trial in run.trials if trial.key.case_id == CASE]
    return replace(run, cases={CASE: run.cases[CASE]}, trials=tuple(trials))


def flags_of(run: Run) -> tuple[Any, Any]:
    return make_flags(run), FLAG_NAMES


def measure(run: Run, directory: Path) -> None:
    """The life of a run as the command line lives it."""
    first, *records = journal_records(run)
    with Journal(directory, first) as journal:
        for record in records:
            journal.append(record)
        seal(parse_journal(read_journal(journal.path)), directory, *flags_of(run))
        remove_journal(journal.path)


def recover_all(directory: Path) -> list[Path | None]:
    return [recover(journal, flags_of) for journal in unsealed(directory)]


def check_sealed(directory: Path) -> None:
    """Every sealed file is readable before anything is recovered."""
    for path in directory.glob("*.h5"):
        load_run(path)


def check_clean(directory: Path) -> None:
    """Every sealed file is whole with the two files beside it, and there is nothing else."""
    assert list((directory / "journal").glob("*")) == []
    sealed = sorted(directory.glob("*.h5"))
    assert {path: verify_run(path) for path in sealed} == {path: [] for path in sealed}
    beside = {path.name for path in sealed} | {f"{path.name}.sha256" for path in sealed}
    assert {path.name for path in directory.iterdir() if path.is_file()} == beside | {f"{p.stem}.json" for p in sealed}


def run_in_child(work: Callable[[], None]) -> int:
    process = FORK.Process(target=work)
    process.start()
    process.join(60)
    assert process.exitcode is not None
    return process.exitcode


def die_before_call(number: int) -> None:
    """Kill this process just before its so manyth call into the operating system."""
    calls = 0

    def watch(_frame: Any, event: str, called: Any) -> None:
        nonlocal calls
        if event == "c_call" and getattr(called, "__module__", "") in ("posix", "fcntl"):
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
            calls += 1

    sys.setprofile(watch)


def iter_deaths(run: Run, folder: Path) -> Iterator[tuple[Path, int]]:
    """A directory for each call before which the process was killed; ends with the one that it survived."""
    for call in range(1000):
        directory = folder / f"{call:03}"
        directory.mkdir()

        def work(directory: Path = directory, call: int = call) -> None:
            die_before_call(call)
            measure(run, directory)
            sys.setprofile(None)

        status = run_in_child(work)
        assert status in (0, -signal.SIGKILL)
        yield directory, status
        if status == 0:
            return


def test_killed_before_any_system_call_loses_no_record(tmp_path: Path) -> None:
    run = small_run()
    records = list(journal_records(run))
    survivors = []
    outcomes = set()
    for directory, status in iter_deaths(run, tmp_path):
        check_sealed(directory)
        (directory / "journal").mkdir(exist_ok=True)
        for journal in unsealed(directory):
            found = read_journal(journal)
            assert found == records[: len(found)]
            outcomes.add(len(found))
        recover_all(directory)
        check_clean(directory)
        if list(directory.glob("*.h5")):
            survivors.append(directory)
        last = status
    assert last == 0
    # The kills hit the journal after every record, and sealing at many places.
    assert outcomes == set(range(len(records) + 1))
    assert len(survivors) > len(records) + 15
    # From the first trial on there is always something to seal; at the end it is the whole run.
    assert load_run(survivors[-1] / f"{run.run_id}.h5") == run


def test_killed_at_random_moments_is_always_recovered(tmp_path: Path) -> None:
    rng = random.Random()

    def work() -> None:
        for number in range(10_000):
            measure(small_run(f"run-{os.getpid()}-{number}"), tmp_path)

    for _ in range(KILLS):
        process = FORK.Process(target=work)
        process.start()
        time.sleep(rng.uniform(0.01, 0.6))
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        check_sealed(tmp_path)
        recover_all(tmp_path)
    check_clean(tmp_path)
    assert len(list(tmp_path.glob("*.h5"))) > KILLS / 2


def test_journal_without_end_is_sealed_as_partial(tmp_path: Path) -> None:
    run = small_run()
    first, *records = journal_records(run)
    with Journal(tmp_path, first) as journal:
        for record in records[:-2]:
            journal.append(record)
    path = recover(journal.path, flags_of)
    assert path == tmp_path / f"{run.run_id}.h5"
    sealed = load_run(path)
    assert sealed.status == "partial"
    assert [trial.status for trial in sealed.trials] == ["ok", "interrupted"]
    assert sealed.trials[0] == run.trials[0]
    assert not journal.path.exists()


def test_journal_in_which_no_trial_began_is_removed(tmp_path: Path) -> None:
    first, *records = journal_records(small_run())
    with Journal(tmp_path, first) as journal:
        journal.append(records[0])
    assert recover(journal.path, flags_of) is None
    assert list(tmp_path.rglob("*.*")) == []


def test_damaged_journal_is_named_and_stays(tmp_path: Path) -> None:
    first, *records = journal_records(small_run())
    with Journal(tmp_path, first) as journal:
        for record in records:
            journal.append(record)
    data = bytearray(journal.path.read_bytes())
    data[len(data) // 2] ^= 1
    journal.path.write_bytes(data)
    with pytest.raises(XdpreproError, match=f"{journal.path}: damaged at byte") as caught:
        recover(journal.path, flags_of)
    assert caught.value.status == STORAGE
    assert journal.path.read_bytes() == data


def write_whole_journal(run: Run, directory: Path) -> Path:
    first, *records = journal_records(run)
    with Journal(directory, first) as journal:
        for record in records:
            journal.append(record)
    return journal.path


def without_first_line(data: bytes) -> bytes:
    return data.partition(b"\n")[2]


def change_record(number: int, **fields: Any) -> Callable[[bytes], bytes]:
    """Set fields of one record, or take them out (None); its checksum is right."""

    def change(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        record = json.loads(lines[number - 1].split(b" ", 2)[2]) | fields
        lines[number - 1] = format_record({key: value for key, value in record.items() if value is not None})
        return b"".join(lines)

    return change


SPOILT: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "CRLF": (lambda data: data.replace(b"\n", b"\r\n"), "damaged at byte 0,"),
    "gzip": (gzip.compress, "damaged at byte 0,"),
    "random": (lambda data: random.Random(1).randbytes(len(data)), "damaged at byte 0,"),
    "CRLF after line 1": (
        lambda data: data.partition(b"\n")[0] + b"\n" + without_first_line(data).replace(b"\n", b"\r\n"),
        "damaged at byte [1-9]",
    ),
    "cut in line 1": (lambda data: data[:100], "its first record is not whole"),
    "zeros": (lambda data: bytes(len(data)), "its first record is not whole"),
    "line 1 gone": (without_first_line, "record 1 is 'skip': the 'run' record that belongs before all others"),
    "doubled": (lambda data: data + data, "record [0-9]+ is a second 'run' record"),
    "no rec": (change_record(2, rec=None), "record 2 has no 'rec'"),
    "no time": (change_record(3, t_utc_ns=None), r"record 3 \('boot'\) has no 't_utc_ns'"),
    "huge time": (change_record(3, t_utc_ns=2**80), r"record 3 \('boot'\) has 't_utc_ns' of 12089"),
    "no message": (change_record(5, msg={"edge": "start"}), "record 5 .* is no message of an agent: KeyError"),
    "other run": (change_record(1, run_id="other"), "is the journal of another run, .* other.journal"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_journal_that_cannot_be_understood_is_named_and_stays(tmp_path: Path, name: str) -> None:
    spoil, message = SPOILT[name]
    path = write_whole_journal(small_run(), tmp_path)
    data = spoil(path.read_bytes())
    path.write_bytes(data)
    with pytest.raises(XdpreproError, match=f"{path}: {message}") as caught:
        recover(path, flags_of)
    assert caught.value.status == STORAGE
    assert "no measurement" not in caught.value.hint
    assert path.read_bytes() == data
    assert list(tmp_path.glob("*.h5")) == []


def test_journal_without_a_byte_is_removed(tmp_path: Path) -> None:
    path = write_whole_journal(small_run(), tmp_path)
    os.truncate(path, 0)
    assert recover(path, flags_of) is None
    assert not path.exists()


def recover_by_command(directory: Path) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "xdprepro", "archive", "recover", "--archive", str(directory)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_odd_entries_are_reported_and_the_other_journals_recovered(tmp_path: Path) -> None:
    run = make_case_run(Case("xdp.drop.no-touch"), [100.0], run_id="run-m")
    path = write_whole_journal(run, tmp_path)
    path.with_name("a.journal").mkdir()
    os.mkfifo(path.with_name("b.journal"))
    path.with_name("c.journal").symlink_to("nowhere")
    path.with_name("z.journal").write_bytes(path.read_bytes())
    # Whole, but of a run whose fingerprint lacks what its trials are judged by.
    write_whole_journal(small_run("y"), tmp_path)
    odd = [path.with_name(f"{name}.journal") for name in "abcyz"]
    assert unsealed(tmp_path) == [*odd[:3], path, *odd[3:]]
    done = recover_by_command(tmp_path)
    assert done.returncode == STORAGE
    assert done.stdout == f"run-m: sealed as {tmp_path / 'run-m.h5'}\n"
    assert "Traceback" not in done.stderr
    wanted = [*["not a regular file"] * 2, "No such file", "its trials cannot", "is the journal of another run"]
    for one, what in zip(odd, wanted, strict=True):
        assert f"error: {one}: {what}" in done.stderr
    assert "error: 5 of 6 journals were not recovered and stay" in done.stderr
    assert sorted(path.parent.iterdir()) == odd
    assert canonical(load_run(tmp_path / "run-m.h5")).trials == canonical(run).trials


def test_journal_is_removed_only_when_its_run_is_sealed(tmp_path: Path) -> None:
    run = small_run()
    first, *records = journal_records(run)
    with Journal(tmp_path, first) as journal:
        for record in records:
            journal.append(record)
    with pytest.raises(XdpreproError, match="its 2 finished trials are not sealed"):
        remove_journal(journal.path)
    path = seal(run, tmp_path, *flags_of(run))
    whole = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(whole[:-1])
    with pytest.raises(XdpreproError, match="not sealed"):
        remove_journal(journal.path)
    assert journal.path.exists()
    path.write_bytes(whole)
    remove_journal(journal.path)
    assert not journal.path.exists()


def test_two_recoveries_of_one_journal_do_no_harm(tmp_path: Path) -> None:
    run = small_run()
    first, *records = journal_records(run)
    with Journal(tmp_path, first) as journal:
        for record in records:
            journal.append(record)
    gate = FORK.Barrier(3)

    def work() -> None:
        gate.wait()
        try:
            recover(journal.path, flags_of)
        except XdpreproError as error:
            # Too late by a moment, or by more.
            sys.exit(0 if error.status == BUSY or "No such file" in error.message else 1)

    processes = [FORK.Process(target=work) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    check_clean(tmp_path)
    assert load_run(tmp_path / f"{run.run_id}.h5") == run

# SPDX-License-Identifier: GPL-2.0-or-later
"""From a journal that a crash left to what can be saved of it; what cannot be read stays where it is."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xdprepro.archive.durable import list_files, read_file, sidecar, storage_error, sync_directory
from xdprepro.archive.journal import FOLDER, hold_journal, read_journal
from xdprepro.archive.seal import seal
from xdprepro.errors import BUSY, STORAGE, XdpreproError
from xdprepro.sample import Run, TrialKey, parse_journal, parse_profile, parse_stream

# Record -> its fields, by archive/README.md. Records of other kinds are for newer readers.
_RECORDS: Mapping[str, Mapping[str, type]] = {
    "run": {
        **dict.fromkeys(("run_id", "plan_id", "suite", "lab", "lab_kind", "design"), str),
        **dict.fromkeys(("t_utc_ns", "restarts", "trials_per_restart"), int),
        **dict.fromkeys(("fingerprint", "documents", "cases"), dict),
    },
    "skip": {"case_id": str, "reason": str},
    "boot": {"boot": int, "kind": str, "boot_id": str, "kernel_release": str, "t_utc_ns": int},
    "trial": {"slot": int, "case_id": str, "boot": int, "trial": int, "t_utc_ns": int},
    "line": {"slot": int, "side": str, "msg": dict},
    "trial_end": {"slot": int, "status": str, "reason": str},
    "profile": {"slot": int, "profile": dict},
    "document": {"name": str, "text": str},
    "fingerprint": {"add": dict},
    "end": {"status": str, "t_utc_ns": int},
}

# Fields that not every record of their kind has.
_OPTIONAL: Mapping[str, Mapping[str, type]] = {"boot": {"port": str, "cmdline": str}}


def unsealed(directory: Path) -> list[Path]:
    """The journals whose writer is gone, the oldest first: what a crash or a full disk left.

    Whatever else bears the name of a journal is among them, so that recover() says what is wrong with it.
    """
    left = []
    for path in list_files(directory / FOLDER, ".journal"):
        try:
            with hold_journal(path):
                left.append(path)
        except XdpreproError as error:
            # It may have been sealed and removed since it was listed.
            if error.status != BUSY and os.path.lexists(path):
                left.append(path)
    return left


def recover(journal: Path, flags_of: Callable[[Run], tuple[Mapping[TrialKey, int], Sequence[str]]]) -> Path | None:
    """Seal what a journal holds, as `partial` unless it was complete, then remove it.

    Nothing is sealed of a journal in which no trial began. One that cannot be understood to its end stays as it is:
    XdpreproError(status=STORAGE) says what is wrong. Raises XdpreproError(status=BUSY) while the writer lives.
    """
    with hold_journal(journal):
        run = _read_run(journal)
        path = None
        if run and run.trials:
            try:
                flags, names = flags_of(run)
            except (LookupError, TypeError, AttributeError, ValueError) as error:
                what = f"its trials cannot be judged, as something is missing in them or in the fingerprint: {error!r}"
                raise _wrong(journal, what, "restore the journal from a copy; it is kept as it is") from error
            path = seal(run, journal.parent.parent, flags, names)
        remove_journal(journal)
    return path


def _read_run(journal: Path) -> Run | None:
    """The run of a journal; none of one whose writer was killed before it wrote the first byte."""
    records = read_journal(journal)
    if not records:
        if not journal.stat().st_size:
            return None
        raise _wrong(journal, "its first record is not whole, so nothing tells what it is of", "restore it, or move it")
    for number, record in enumerate(records, start=1):
        if what := _find_wrong(number, record):
            raise _wrong(journal, f"record {number} {what}", "restore the journal from a copy; it is kept as it is")
    if records[0]["run_id"] != journal.stem:
        name = f"{records[0]['run_id']}.journal"
        raise _wrong(journal, f"is the journal of another run, by its first record {name}", f"rename it to {name}")
    return parse_journal(records)


def _find_wrong(number: int, record: Mapping[str, Any]) -> str:
    """Why a record cannot stand at its place, or nothing."""
    kind = record.get("rec")
    if not isinstance(kind, str):
        return "has no 'rec' that says what it is"
    if number == 1 and kind != "run":
        return f"is {kind!r}: the 'run' record that belongs before all others is missing"
    if number > 1 and kind == "run":
        return "is a second 'run' record: two journals in one file"
    optional = {name: wanted for name, wanted in _OPTIONAL.get(kind, {}).items() if name in record}
    for name, wanted in {**_RECORDS.get(kind, {}), **optional}.items():
        if name not in record:
            return f"({kind!r}) has no {name!r}"
        if type(record[name]) is not wanted or (wanted is int and not 0 <= record[name] < 2**63):
            return f"({kind!r}) has {name!r} of {str(record[name])[:40]}"
    return _find_unparsed(record)


def _find_unparsed(record: Mapping[str, Any]) -> str:
    """Why what a record carries cannot be understood, or nothing."""
    try:
        if record["rec"] == "line":
            parse_stream([record["msg"]])
        elif record["rec"] == "profile":
            parse_profile(record["profile"])
    except (LookupError, TypeError, AttributeError) as error:
        return f"('line') is no message of an agent: {error!r}"
    except XdpreproError as error:
        return f"('profile') has {error.message}"
    return ""


def _wrong(journal: Path, what: str, hint: str) -> XdpreproError:
    return XdpreproError(f"{journal}: {what}", hint=hint, status=STORAGE)


def remove_journal(journal: Path) -> None:
    """Remove the journal of a run that is sealed, or in which no trial was finished; any other is refused."""
    path = journal.parent.parent / f"{journal.stem}.h5"
    try:
        if not _is_whole(path) and (count := _count_finished(journal)):
            raise XdpreproError(
                f"{journal}: not removed, its {count} finished trials are not sealed",
                hint="seal them with 'xdprepro archive recover'",
                status=STORAGE,
            )
        journal.unlink()
        sync_directory(journal.parent)
    except OSError as error:
        raise storage_error(error, journal, "removing the journal") from None


def _is_whole(path: Path) -> bool:
    """Whether a sealed file and its checksum are there and agree."""
    if not (path.exists() and sidecar(path).exists()):
        return False
    digest = hashlib.sha256(read_file(path)).hexdigest()
    return read_file(sidecar(path)).split()[:1] == [digest.encode()]


def _count_finished(journal: Path) -> int:
    ends = [record for record in read_journal(journal) if record.get("rec") == "trial_end"]
    return sum(1 for record in ends if record.get("status") in ("ok", "failed"))

# SPDX-License-Identifier: GPL-2.0-or-later
"""Which runs there are: a manifest beside each sealed file says enough for a list, so that no HDF5 file is opened."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from pathlib import Path
from typing import Any, get_origin

from xdprepro.archive.durable import list_files, read_file
from xdprepro.archive.hdf5 import HDF5_ERRORS, explain
from xdprepro.archive.read import load_flags, load_run
from xdprepro.archive.schema import SCHEMA_VERSION
from xdprepro.errors import STORAGE, USAGE, XdpreproError
from xdprepro.sample import RUN_STATUSES, Run, TrialKey

UNREADABLE = "unreadable"
SHORTEST_PREFIX = 4
SHOWN_CANDIDATES = 8
# RFC 9562: a UUID of version 7 begins with the milliseconds of its making.
_UUID7 = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A sealed run at a glance. `problem` says why a file cannot be read (`status` is `unreadable`) or is misnamed."""

    path: Path
    run_id: str
    plan_id: str
    status: str
    suite: str
    lab: str
    lab_kind: str
    kernel_release: str
    created_utc_ns: int
    closed_utc_ns: int
    design: str
    boots: int
    trials: int
    failed: int
    flagged: int
    cases: tuple[str, ...]
    skipped: tuple[str, ...]
    host_key: str
    git_commit: str
    schema_version: str
    sha256: str
    size_bytes: int
    problem: str = ""
    ports: tuple[str, ...] = ()


def make_info(path: Path, data: bytes, run: Run, flags: Mapping[TrialKey, int]) -> RunInfo:
    """The glance at a run whose file holds these bytes."""
    ok = [trial for trial in run.trials if trial.status == "ok"]
    releases = [boot.kernel_release for boot in run.boots]
    return RunInfo(
        path=path,
        run_id=run.run_id,
        plan_id=run.plan_id,
        status=run.status,
        suite=run.suite,
        lab=run.lab,
        lab_kind=run.lab_kind,
        kernel_release=(releases or [run.fingerprint.get("kernel", {}).get("release", "")])[0],
        created_utc_ns=run.created_utc_ns,
        closed_utc_ns=run.closed_utc_ns,
        design=run.design,
        boots=len(run.boots),
        trials=len(run.trials),
        failed=len(run.trials) - len(ok),
        flagged=sum(1 for trial in ok if flags.get(trial.key, 0)),
        cases=tuple(case_id for case_id in run.cases if case_id not in run.skipped),
        skipped=tuple(run.skipped),
        host_key=run.fingerprint.get("host", {}).get("host_key", ""),
        git_commit=run.fingerprint.get("checkout", {}).get("git_commit", ""),
        schema_version=SCHEMA_VERSION,
        sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
        ports=tuple(dict.fromkeys(boot.port for boot in run.boots if boot.port)),
    )


def format_manifest(info: RunInfo) -> bytes:
    """The manifest's text; it lies beside the file that it is about, so it names no path."""
    said = {field: getattr(info, field.name) for field in fields(info) if field.name != "path"}
    # A field that came with a later version is there only where it says something, so older readers know the others.
    values = {field.name: value for field, value in said.items() if field.default is MISSING or value != field.default}
    return (json.dumps(values, indent=1) + "\n").encode()


def read_info(path: Path) -> RunInfo:
    """The glance taken from the sealed file itself."""
    flags, _ = load_flags(path)
    info = make_info(path, read_file(path), load_run(path), flags)
    if not _has_types(info):
        raise TypeError("it says things of the wrong type")
    return info


def read_manifest(path: Path) -> RunInfo | None:
    """The glance from the manifest beside a sealed file, or nothing where there is none that fits the file."""
    try:
        info = _parse_manifest(path)
        return info if info and info.size_bytes == path.stat().st_size else None
    except OSError:
        return None


def _parse_manifest(path: Path) -> RunInfo | None:
    """What the manifest beside a sealed file says, if it is one of that run."""
    try:
        values = json.loads(read_file(path.with_suffix(".json")))
        known = {field.name for field in fields(RunInfo)}
        info = RunInfo(path=path, **{key: _freeze(value) for key, value in values.items() if key in known})
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    fits = info.run_id == path.stem and info.status in RUN_STATUSES and not info.problem
    return info if fits and _has_types(info) else None


def _freeze(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _has_types(info: RunInfo) -> bool:
    """Whether each field is of its type and can be stored and printed."""
    values = {field: getattr(info, field.name) for field in fields(info) if field.name != "path"}
    return all(type(value) is _type_of(field) and _is_plain(value) for field, value in values.items())


def _is_plain(value: Any) -> bool:
    """Whole text (no half of a surrogate pair), a 64-bit number, or a list of texts."""
    if isinstance(value, tuple):
        return all(isinstance(one, str) and _is_plain(one) for one in value)
    if isinstance(value, str):
        return value.encode(errors="replace").decode() == value
    return bool(0 <= value < 2**63)


def _type_of(field: Field[Any]) -> Any:
    return get_origin(field.type) or field.type


def list_runs(directory: Path) -> list[RunInfo]:
    """All sealed runs of a folder, the oldest first. A file that cannot be read is in the list, as `unreadable`."""
    infos = [_look(path) for path in list_files(directory, ".h5")]
    return sorted(infos, key=lambda info: (info.created_utc_ns, info.run_id))


def _look(path: Path) -> RunInfo:
    if info := read_manifest(path):
        return info
    try:
        info = read_info(path)
    except XdpreproError as error:
        return _blank_info(path, error.message)
    except (OSError, *HDF5_ERRORS) as error:
        return _blank_info(path, f"{path}: damaged: {explain(error)}")
    if info.run_id == path.stem:
        return info
    proper = path.with_name(f"{info.run_id}.h5")
    what = "a copy of" if proper.exists() else "renamed from"
    return replace(info, problem=f"{path}: {what} {proper.name}, and not counted")


def _blank_info(path: Path, problem: str) -> RunInfo:
    """A file that cannot be read; its manifest, or else its run id, may still say when it was made."""
    blank = {field.name: _type_of(field)() for field in fields(RunInfo) if field.name != "path"}
    said, made = _parse_manifest(path), _UUID7.fullmatch(path.stem)
    created_utc_ns = said.created_utc_ns if said else int(made[1] + made[2], 16) * 10**6 if made else 0
    known = {"run_id": path.stem, "status": UNREADABLE, "problem": problem, "created_utc_ns": created_utc_ns}
    return RunInfo(path=path, **blank | known)


def find_run(directory: Path, selector: str) -> Path:
    """The sealed file that a path, a run id, its beginning, `latest` or `latest~N` means.

    Raises XdpreproError(status=USAGE) where it means none or several, and says which there are; `latest` counts the
    files that cannot be read as well, and does not pass one by: XdpreproError(status=STORAGE).
    """
    if selector.endswith(".h5") or "/" in selector:
        if not Path(selector).is_file():
            raise XdpreproError(
                f"{selector}: there is no such file", hint="'xdprepro archive ls' lists the runs", status=USAGE
            )
        return Path(selector)
    word, tilde, back = selector.partition("~")
    if word == "latest" and (back.isdecimal() or not tilde):
        return _find_latest(directory, selector, int(back or 0))
    paths = {path.stem: path for path in list_files(directory, ".h5")}
    if selector in paths:
        return paths[selector]
    found = [run_id for run_id in paths if run_id.startswith(selector)]
    if len(found) == 1 and len(selector) >= SHORTEST_PREFIX:
        return paths[found[0]]
    if not found:
        raise XdpreproError(
            f"{selector}: no run of {directory} has this id; {_candidates(list(paths))}", hint=_HINT, status=USAGE
        )
    if len(selector) < SHORTEST_PREFIX:
        raise XdpreproError(
            f"{selector}: too short, give at least {SHORTEST_PREFIX} characters of the run id", hint=_HINT, status=USAGE
        )
    raise XdpreproError(
        f"{selector}: begins {len(found)} run ids: {_candidates(found)}", hint="give more of the id", status=USAGE
    )


_HINT = "'xdprepro archive ls' lists the runs; 'latest' and 'latest~1' are the newest and the one before"


def _find_latest(directory: Path, selector: str, back: int) -> Path:
    runs = [info for info in list_runs(directory) if info.run_id == info.path.stem]
    if back >= len(runs):
        hint = _HINT if runs else "measure one: 'xdprepro run smoke --lab veth'"
        raise XdpreproError(f"{selector}: {directory} has {len(runs)} sealed runs", hint=hint, status=USAGE)
    info = runs[-1 - back]
    if info.status == UNREADABLE:
        hint = f"'xdprepro archive verify {info.path}' names what is damaged; or name another run by its id"
        raise XdpreproError(f"{selector}: {info.problem}", hint=hint, status=STORAGE)
    return info.path


def _candidates(run_ids: Sequence[str]) -> str:
    if not run_ids:
        return "there is none"
    more = f" and {len(run_ids) - SHOWN_CANDIDATES} more" if len(run_ids) > SHOWN_CANDIDATES else ""
    return ", ".join(run_ids[-SHOWN_CANDIDATES:]) + more

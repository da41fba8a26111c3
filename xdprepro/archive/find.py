# SPDX-License-Identifier: GPL-2.0-or-later
"""Which runs there are: a manifest beside each sealed file says enough for a list, so that no HDF5 file is opened."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import Field, asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_origin

from xdprepro.archive.durable import list_files
from xdprepro.archive.read import load_flags, load_run
from xdprepro.archive.schema import SCHEMA_VERSION
from xdprepro.errors import USAGE, XdpreproError
from xdprepro.sample import Run, TrialKey

UNREADABLE = "unreadable"
SHORTEST_PREFIX = 4
SHOWN_CANDIDATES = 8


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A sealed run at a glance. `status` is `unreadable`, with `problem`, for a file that cannot be read."""

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
    )


def format_manifest(info: RunInfo) -> bytes:
    """The manifest's text; it lies beside the file that it is about, so it names no path."""
    values = {key: value for key, value in asdict(info).items() if key not in ("path", "problem")}
    return (json.dumps(values, indent=1) + "\n").encode()


def read_info(path: Path) -> RunInfo:
    """The glance taken from the sealed file itself."""
    flags, _ = load_flags(path)
    return make_info(path, path.read_bytes(), load_run(path), flags)


def read_manifest(path: Path) -> RunInfo | None:
    """The glance from the manifest beside a sealed file, or nothing where there is none that fits the file."""
    try:
        values = json.loads(path.with_suffix(".json").read_bytes())
        info = RunInfo(path=path, **{key: _freeze(value) for key, value in values.items()})
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    fits = info.run_id == path.stem and info.size_bytes == path.stat().st_size
    return info if fits and _has_types(info) else None


def _freeze(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _has_types(info: RunInfo) -> bool:
    return all(type(getattr(info, field.name)) is _type_of(field) for field in fields(info) if field.name != "path")


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
        return read_info(path)
    except XdpreproError as error:
        blank = {field.name: _type_of(field)() for field in fields(RunInfo)}
        return RunInfo(**blank | {"path": path, "run_id": path.stem, "status": UNREADABLE, "problem": error.message})


def find_run(directory: Path, selector: str) -> Path:
    """The sealed file that a path, a run id, its beginning, `latest` or `latest~N` means.

    Raises XdpreproError(status=USAGE) where it means none or several, and says which there are.
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
    runs = [info for info in list_runs(directory) if info.status != UNREADABLE]
    if back >= len(runs):
        hint = _HINT if runs else "measure one: 'xdprepro run smoke --lab veth'"
        raise XdpreproError(f"{selector}: {directory} has {len(runs)} sealed runs", hint=hint, status=USAGE)
    return runs[-1 - back].path


def _candidates(run_ids: Sequence[str]) -> str:
    if not run_ids:
        return "there is none"
    more = f" and {len(run_ids) - SHOWN_CANDIDATES} more" if len(run_ids) > SHOWN_CANDIDATES else ""
    return ", ".join(run_ids[-SHOWN_CANDIDATES:]) + more

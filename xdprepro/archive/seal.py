# SPDX-License-Identifier: GPL-2.0-or-later
"""From a run to its sealed file."""

import secrets
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from xdprepro.archive.canonical import canonical
from xdprepro.archive.check import check_structure
from xdprepro.archive.durable import sidecar, storage_error, write_durably
from xdprepro.archive.find import format_manifest, make_info
from xdprepro.archive.hdf5 import HDF5_ERRORS, explain, open_run
from xdprepro.archive.read import load_flags, load_run, read_run
from xdprepro.archive.write import build_image
from xdprepro.errors import STORAGE, XdpreproError
from xdprepro.sample import Run, TrialKey

DEFAULT_DIRECTORY = Path(__file__).parents[2] / "archive/runs"


_making = threading.Lock()
_last_tick = 0


def make_run_id() -> str:
    """A new UUID of version 7 (RFC 9562, method 3): ids sort by the quarter of a microsecond of their making.

    Those that one process makes sort in the order of their making.
    """
    global _last_tick
    with _making:
        now_ns = time.time_ns()
        tick = max(now_ns // 10**6 << 12 | now_ns % 10**6 * 4096 // 10**6, _last_tick + 1)
        _last_tick = tick
    value = tick >> 12 << 80 | 7 << 76 | (tick & 0xFFF) << 64 | 2 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=value))


def prepare_directory(directory: Path | None) -> Path:
    """The archive's folder, made if need be, in which a file can be written now."""
    folder = directory or DEFAULT_DIRECTORY
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")
            file.flush()
    except OSError as error:
        raise storage_error(error, folder, "preparing the archive") from None
    return folder


def seal(run: Run, directory: Path, flags: Mapping[TrialKey, int], flag_names: Sequence[str]) -> Path:
    """Write a run as `<run_id>.h5` with its checksum and manifest; the file is read back whole before it gets its name.

    Sealing a run again is harmless: it completes what a crash left incomplete, and never replaces a sealed file.
    """
    path = directory / f"{run.run_id}.h5"
    doing = f"sealing run {run.run_id}"
    if _is_sealed_as(path, run):
        data = path.read_bytes()
        flags, _ = load_flags(path)
    else:
        data = build_image(run, flags, flag_names)
    write_durably(path, data, doing=doing, check=lambda part: _check_part(part, data, run))
    info = make_info(path, data, run, flags)
    write_durably(sidecar(path), f"{info.sha256}  {path.name}\n".encode(), doing=doing)
    write_durably(path.with_suffix(".json"), format_manifest(info), doing=doing, replace=True)
    return path


def _is_sealed_as(path: Path, run: Run) -> bool:
    """Whether the file is there and holds this run, perhaps written by another version of xdprepro."""
    try:
        return path.exists() and canonical(load_run(path)) == canonical(run)
    except XdpreproError:
        return False


def _check_part(part: Path, data: bytes, run: Run) -> None:
    """Read what is on disk as any reader would; nothing less gets the name of a sealed file."""
    try:
        with open_run(part) as file:
            findings = check_structure(file)
            same = canonical(read_run(file)) == canonical(run)
    except HDF5_ERRORS as error:
        raise XdpreproError(
            f"{part}: cannot be read back: {explain(error)}", hint="check the disk (dmesg)", status=STORAGE
        ) from error
    if findings:
        raise XdpreproError(f"{part}: {findings[0].where}: {findings[0].what}", status=STORAGE)
    if not same or part.read_bytes() != data:
        raise XdpreproError(
            f"{part}: reads back as other than what was written",
            hint="the journal is kept: run 'xdprepro archive recover' on a sound disk",
            status=STORAGE,
        )

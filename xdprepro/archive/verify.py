# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a sealed file is what it was and means what it says; whatever is wrong becomes a finding."""

import hashlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from xdprepro.archive.check import Finding, check_structure
from xdprepro.archive.digest import content_digest
from xdprepro.archive.durable import sidecar
from xdprepro.archive.find import read_manifest
from xdprepro.archive.hdf5 import HDF5_ERRORS, File, clip, decode, open_run, read_document, read_text
from xdprepro.archive.read import read_run
from xdprepro.archive.write import case_ids, link_name
from xdprepro.archive.write_case import REASON_BYTES, stream
from xdprepro.errors import XdpreproError
from xdprepro.sample import PHASES, SIDES, Run, Sample, Trial


def verify_run(path: Path) -> list[Finding]:
    """All that is wrong with a sealed file and the files beside it; an empty list is a clean bill."""
    if not path.is_file():
        return [Finding(path.name, "there is no such file")]
    return [*_iter_sidecar_findings(path), *_check_inside(path)]


def _iter_sidecar_findings(path: Path) -> Iterator[Finding]:
    beside = sidecar(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    try:
        words = beside.read_text(encoding="utf-8", errors="replace").split()
    except OSError as error:
        yield Finding(beside.name, f"cannot be read: {error.strerror}")
    else:
        if words[1:] != [path.name]:
            yield Finding(beside.name, f"is not about {path.name}")
        elif words[0] != digest:
            yield Finding(path.name, f"SHA-256 is {digest}, {beside.name} says {words[0]}")
    manifest = read_manifest(path)
    if manifest is None:
        yield Finding(path.with_suffix(".json").name, "is missing, or is no manifest of this file")
    elif manifest.sha256 != digest:
        yield Finding(path.name, f"SHA-256 is {digest}, the manifest says {manifest.sha256}")


def _check_inside(path: Path) -> list[Finding]:
    """The findings within the file; damage that HDF5 reports is one of them."""
    try:
        with open_run(path) as file:
            if findings := check_structure(file):
                return findings
            return list(_iter_content_findings(path, file))
    except XdpreproError as error:
        return [Finding(path.name, error.message.removeprefix(f"{path}: "))]
    except HDF5_ERRORS as error:
        return [Finding(path.name, f"cannot be read: {error}")]


def _iter_content_findings(path: Path, file: File) -> Iterator[Finding]:
    if content_digest(file) != read_text(file, "content_digest"):
        yield Finding("/", "content_digest is not that of the content")
    run = read_run(file)
    if run.run_id != path.stem:
        yield Finding("/", f"run_id is {run.run_id}, the file is named {path.name}")
    yield from _iter_reference_findings(file, run)
    for trial in run.trials:
        for side in SIDES:
            yield from _iter_sample_findings(trial, side)


def _iter_reference_findings(file: File, run: Run) -> Iterator[Finding]:
    """Cases, boots, trials, flags and reports that point at each other."""
    wanted = [link_name(case_id) for case_id in case_ids(run)]
    if sorted(wanted) != sorted(file["cases"]):
        yield Finding("/cases", "are not those of /plan")
    if [boot.index for boot in run.boots] != list(range(len(run.boots))):
        yield Finding("/boots/boot", "is not 0, 1, 2, ...")
    slots = [trial.slot for trial in run.trials]
    if len(set(slots)) < len(slots):
        yield Finding("/cases", "two trials have the same slot")
    flags = len(read_text(file, "flag_names").split())
    for trial in run.trials:
        yield from _iter_trial_findings(file, trial)
    for name, group in file["cases"].items():
        if "trial" not in group:
            continue
        if group["boot"][()].tolist() != [boot.index for boot in run.boots]:
            yield Finding(f"/cases/{name}/boot", "are not the boots of /boots")
        if (group["trial_flags"][()] >> flags).any():
            yield Finding(f"/cases/{name}/trial_flags", "has bits without a name")
        if len(json.loads(read_document(group, "agent_reports"))) != int(np.count_nonzero(group["trial_status"][()])):
            yield Finding(f"/cases/{name}/agent_reports", "are not as many as the trials")


def _iter_trial_findings(file: File, trial: Trial) -> Iterator[Finding]:
    case_id, boot, number = trial.key
    where = f"/cases/{link_name(case_id)}"
    if decode(file[where]["trial_reason"][boot, number]) != clip(trial.reason, REASON_BYTES):
        yield Finding(f"{where}/trial_reason", f"boot {boot}, trial {number}: is not that of agent_reports")


def _iter_sample_findings(trial: Trial, side: str) -> Iterator[Finding]:
    """Time and counters that run backwards; the first place in each trial."""
    for earlier, later in itertools.pairwise(stream(trial, side).samples):
        if what := _find_backwards(earlier, later):
            case_id, boot, number = trial.key
            yield Finding(f"/cases/{link_name(case_id)}", f"boot {boot}, trial {number}, {side}: {what}")
            return


def _find_backwards(earlier: Sample, later: Sample) -> str:
    if PHASES.index(later.phase) < PHASES.index(earlier.phase):
        return f"phase {later.phase} follows {earlier.phase}"
    if not earlier.t0_ns <= earlier.t1_ns <= later.t0_ns <= later.t1_ns:
        return f"the sample at {later.t0_ns} ns is not after the one at {earlier.t0_ns} ns"
    for name, value in earlier.counters.items():
        if later.counters.get(name, 0) < value:
            return f"{name} falls from {value} to {later.counters.get(name, 0)}"
    return ""

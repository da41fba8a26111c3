# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a sealed file is what it was and means what it says; whatever is wrong becomes a finding."""

import hashlib
import itertools
import json
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from xdprepro.archive.check import Finding, check_structure
from xdprepro.archive.digest import content_digest
from xdprepro.archive.durable import read_file, sidecar
from xdprepro.archive.find import read_manifest
from xdprepro.archive.hdf5 import HDF5_ERRORS, File, Group, clip, decode, explain, open_run, read_document, read_text
from xdprepro.archive.profiles import COUNTS, TOTALS
from xdprepro.archive.read import read_run
from xdprepro.archive.write import case_ids, link_name
from xdprepro.archive.write_case import REASON_BYTES, stream
from xdprepro.errors import XdpreproError
from xdprepro.sample import PHASES, SIDES, Sample, Trial


def verify_run(path: Path, *, limit_s: float = 120.0) -> list[Finding]:
    """All that is wrong with a sealed file and the files beside it; an empty list is a clean bill.

    A file that is not proven to be as it was is read by a process of its own, for at most `limit_s`: libhdf5 can loop
    or crash on damage where the format has no checksum (the global heap with its references to dimension scales).
    """
    try:
        if not path.is_file():
            return [Finding(path.name, "there is no such file")]
        outside = list(_iter_sidecar_findings(path))
    except OSError as error:
        return [Finding(path.name, f"cannot be read: {error.strerror or error}")]
    return [*outside, *(_check_apart(path, limit_s) if outside else _check_inside(path))]


def _check_apart(path: Path, limit_s: float) -> list[Finding]:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    reader = spawn.Process(target=_send_findings, args=(path, theirs))
    reader.start()
    theirs.close()
    try:
        if not ours.poll(limit_s):
            return [Finding(path.name, f"reading it does not come to an end, and was stopped after {limit_s:g} s")]
        findings: list[Finding] = ours.recv()
    except EOFError:
        reader.join()
        return [Finding(path.name, f"reading it ends the reader (exit status {reader.exitcode})")]
    finally:
        reader.kill()
        reader.join()
        ours.close()
    return findings


def _send_findings(path: Path, pipe: Connection) -> None:
    pipe.send(_check_inside(path))


def _iter_sidecar_findings(path: Path) -> Iterator[Finding]:
    beside = sidecar(path)
    digest = hashlib.sha256(read_file(path)).hexdigest()
    try:
        words = read_file(beside).decode(errors="replace").split()
    except OSError as error:
        yield Finding(beside.name, f"cannot be read: {error.strerror or error}")
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
        return [Finding(path.name, f"cannot be read: {explain(error)}")]


def _iter_content_findings(path: Path, file: File) -> Iterator[Finding]:
    if content_digest(file) != read_text(file, "content_digest"):
        yield Finding("/", "content_digest is not that of the content")
    run = read_run(file)
    if run.run_id != path.stem:
        yield Finding("/", f"run_id is {run.run_id}, the file is named {path.name}")
    boots = [boot.index for boot in run.boots]
    if boots != list(range(len(boots))):
        yield Finding("/boots/boot", "is not 0, 1, 2, ...")
    slots = [trial.slot for trial in run.trials]
    if len(set(slots)) < len(slots):
        yield Finding("/cases", "two trials have the same slot")
    if sorted(map(link_name, case_ids(run))) != sorted(file["cases"]):
        yield Finding("/cases", "are not those of /plan")
        return
    for group in file["cases"].values():
        if "trial" in group:
            yield from _iter_case_findings(group, boots, len(read_text(file, "flag_names").split()))
            yield from _iter_profile_findings(group)
    for trial in run.trials:
        yield from _iter_trial_findings(file, trial)


def _iter_case_findings(group: Group, boots: list[int], flags: int) -> Iterator[Finding]:
    if group["boot"][()].tolist() != boots:
        yield Finding(f"{group.name}/boot", "are not the boots of /boots")
    if (group["trial_flags"][()] >> flags).any():
        yield Finding(f"{group.name}/trial_flags", "has bits without a name")
    if len(json.loads(read_document(group, "agent_reports"))) != int(np.count_nonzero(group["trial_status"][()])):
        yield Finding(f"{group.name}/agent_reports", "are not as many as the trials")


def _iter_profile_findings(case: Group) -> Iterator[Finding]:
    """Rows of one name, and counts where nothing was counted."""
    profile, allowed = case.get("profile"), case["trial_status"][()] > 0
    if profile and "function" in profile:
        rows = list(zip(profile["function"][()].tolist(), profile["side"][()].tolist(), strict=True))
        if len(set(rows)) < len(rows):
            yield Finding(f"{profile.name}/function", "has a function twice on one side")
    for group in filter(None, (profile, case.get("profile/memory"))):
        present = group["present"][()] > 0
        if (present & ~allowed).any():
            yield Finding(f"{group.name}/present", "is set where nothing was counted")
        for name in (*TOTALS, *COUNTS):
            if name in group and group[name][()][~present].any():
                yield Finding(f"{group.name}/{name}", "has counts where nothing was counted")
        allowed = present


def _iter_trial_findings(file: File, trial: Trial) -> Iterator[Finding]:
    """What is stored twice and differs; then time and counters that run backwards, the first place of each side."""
    case_id, boot, number = trial.key
    where = f"/cases/{link_name(case_id)}"
    if trial.profile and (total := sum(row.insn for row in trial.profile.rows)) != trial.profile.total_insn:
        what = f"its functions have {total} instructions, total_insn says {trial.profile.total_insn}"
        yield Finding(f"{where}/profile", f"boot {boot}, trial {number}: {what}")
    if decode(file[where]["trial_reason"][boot, number]) != clip(trial.reason, REASON_BYTES):
        yield Finding(f"{where}/trial_reason", f"boot {boot}, trial {number}: is not that of agent_reports")
    for side in SIDES:
        pairs = itertools.pairwise(stream(trial, side).samples)
        if what := next(filter(None, itertools.starmap(_find_backwards, pairs)), ""):
            yield Finding(where, f"boot {boot}, trial {number}, {side}: {what}")


def _find_backwards(earlier: Sample, later: Sample) -> str:
    if PHASES.index(later.phase) < PHASES.index(earlier.phase):
        return f"phase {later.phase} follows {earlier.phase}"
    if not earlier.t0_ns <= earlier.t1_ns <= later.t0_ns <= later.t1_ns:
        return f"the sample at {later.t0_ns} ns is not after the one at {earlier.t0_ns} ns"
    for name, value in earlier.counters.items():
        if later.counters.get(name, 0) < value:
            return f"{name} falls from {value} to {later.counters.get(name, 0)}"
    return ""

# SPDX-License-Identifier: GPL-2.0-or-later
"""The bytes of a run file: the same run, flags and writer give the same bytes.

The file is built in memory, so that a full or broken disk is met by one plain write and never by libhdf5.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from xdprepro import __version__
from xdprepro.archive.digest import content_digest
from xdprepro.archive.hdf5 import LIBVER, File, Group, write_attrs, write_document, write_json, write_var
from xdprepro.archive.profiles import write_profiles
from xdprepro.archive.schema import (
    BOOT_KINDS,
    BOOTS,
    CASE_GROUPS,
    MIN_READER_VERSION,
    SCHEMA_ID,
    SCHEMA_VERSION,
)
from xdprepro.archive.write_case import write_case
from xdprepro.errors import STORAGE, XdpreproError
from xdprepro.sample import PHASES, TRIAL_STATUSES, Run, TrialKey, find_profile_fault, flatten


def build_image(run: Run, flags: Mapping[TrialKey, int], flag_names: Sequence[str]) -> bytes:
    """The whole file of a run."""
    _check(run, flags, flag_names)
    image = io.BytesIO()
    with File(image, "w", libver=LIBVER) as file:
        write_attrs(file, _root_attrs(run, flag_names))
        _write_boots(file.create_group("boots"), run)
        cases = file.create_group("cases")
        for position, case_id in enumerate(case_ids(run)):
            group = cases.create_group(link_name(case_id))
            write_attrs(group, _case_attrs(run, case_id, position))
            trials = [trial for trial in run.trials if trial.key.case_id == case_id]
            if trials:
                write_case(group, trials, len(run.boots), flags, flag_names)
                write_profiles(group, trials, run.fingerprint.get("guest", {}))
        _write_fingerprint(file.create_group("fingerprint"), run.fingerprint)
        documents = file.create_group("documents")
        for name, text in sorted(run.documents.items()):
            write_document(documents, link_name(name), text, "text/plain")
            write_attrs(documents[link_name(name)], {"name": name})
        # Pairs, as the order of the cases is the suite's and JSON objects have none.
        plan = {"cases": list(run.cases.items()), "skipped": list(run.skipped.items())}
        write_json(file, "plan", plan)
        write_json(file.create_group("schema"), "schema_json", describe_schema())
        write_attrs(file, {"content_digest": content_digest(file)})
    return image.getvalue()


def link_name(name: str) -> str:
    """A legal name of an HDF5 link; the names of cases and most documents are their own."""
    return quote(name, safe="")


def case_ids(run: Run) -> list[str]:
    """All cases in the suite's order, then those skipped that it does not have."""
    return list(dict.fromkeys((*run.cases, *run.skipped)))


def describe_schema() -> dict[str, Any]:
    """The schema as JSON, so that a file explains itself."""
    groups = {"boots": BOOTS} | {f"cases/*/{name}".rstrip("/"): group for name, group in CASE_GROUPS.items()}
    return {
        "schema_id": SCHEMA_ID,
        "schema_version": SCHEMA_VERSION,
        "groups": {path: {name: asdict(var) for name, var in group.items()} for path, group in groups.items()},
    }


def _check(run: Run, flags: Mapping[TrialKey, int], flag_names: Sequence[str]) -> None:
    """What would make a file that means nothing; such a run comes from a damaged journal or a bug."""
    trials = {trial.key for trial in run.trials}
    wrong = [
        *(f"boot {boot.index} stands at place {at}" for at, boot in enumerate(run.boots) if boot.index != at),
        *(f"boot {boot.index} is a {boot.kind!r}" for boot in run.boots if boot.kind not in BOOT_KINDS),
        *(f"trial {key} is of no case of the run" for key in trials if key.case_id not in run.cases),
        *(f"trial {key} is of no boot of the run" for key in trials if not 0 <= key.boot < len(run.boots)),
        *(f"trial {t.key} ended {t.status!r}" for t in run.trials if t.status not in TRIAL_STATUSES),
        *(
            f"trial {t.key} has a sample in phase {s.phase!r}"
            for t in run.trials
            for s in (*t.dut.samples, *t.tester.samples)
            if s.phase not in PHASES
        ),
        *(
            f"the profile of trial {t.key}: {fault}"
            for t in run.trials
            if t.profile and (fault := find_profile_fault(t.profile))
        ),
        *(f"flags {mask} of {key} have no name" for key, mask in flags.items() if mask >> len(flag_names)),
        *(f"flags of {key}, which is no trial" for key in flags if key not in trials),
    ]
    if len(trials) < len(run.trials):
        wrong.append("two trials have the same place")
    if wrong:
        raise XdpreproError(f"run {run.run_id}: {'; '.join(wrong)}", status=STORAGE)


def _root_attrs(run: Run, flag_names: Sequence[str]) -> dict[str, Any]:
    checkout = run.fingerprint.get("checkout", {})
    return {
        "schema_id": SCHEMA_ID,
        "schema_version": SCHEMA_VERSION,
        "min_reader_version": MIN_READER_VERSION,
        "writer": f"xdprepro {__version__}",
        "writer_git": checkout.get("git_commit", ""),
        "run_id": run.run_id,
        "plan_id": run.plan_id,
        "suite": run.suite,
        "lab": run.lab,
        "lab_kind": run.lab_kind,
        "created_utc": _iso(run.created_utc_ns),
        "created_utc_ns": run.created_utc_ns,
        "closed_utc": _iso(run.closed_utc_ns),
        "closed_utc_ns": run.closed_utc_ns,
        "status": run.status,
        "restarts": run.restarts,
        "trials_per_restart": run.trials_per_restart,
        "design": run.design,
        "flag_names": " ".join(flag_names),
        "Conventions": "CF-1.11",
        "title": f"XDP performance: suite {run.suite} on lab {run.lab} ({run.lab_kind})",
        "licence": "NOASSERTION",
        "default": "cases",
    }


def _iso(t_utc_ns: int) -> str:
    return datetime.fromtimestamp(t_utc_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _write_boots(group: Group, run: Run) -> None:
    write_attrs(group, {"encoding": "xdprepro-boots", "encoding_version": "1.0.0"})
    if not run.boots:
        return
    columns: dict[str, list[Any]] = {
        "boot": [boot.index for boot in run.boots],
        "boot_kind": [BOOT_KINDS.index(boot.kind) for boot in run.boots],
        "boot_id": [boot.boot_id for boot in run.boots],
        "kernel_release": [boot.kernel_release for boot in run.boots],
        "t_boot_utc_ns": [boot.t_utc_ns for boot in run.boots],
        "port": [boot.port for boot in run.boots],
        "cmdline": [boot.cmdline for boot in run.boots],
    }
    for name, var in BOOTS.items():
        if any(columns[name]) or not var.optional:
            write_var(group, name, var, columns[name])


def _case_attrs(run: Run, case_id: str, position: int) -> dict[str, Any]:
    """The parameters, for queries; the plan document has them as they were."""
    measured = any(trial.key.case_id == case_id for trial in run.trials)
    status = "skipped" if case_id in run.skipped else "measured" if measured else "not-reached"
    return {
        **flatten(run.cases.get(case_id, {})),
        "encoding": "xdprepro-case",
        "encoding_version": "1.0.0",
        "case_id": case_id,
        "position": position,
        "status": status,
        "reason": run.skipped.get(case_id, ""),
    }


def _write_fingerprint(group: Group, fingerprint: Mapping[str, Any]) -> None:
    """The whole as one document, and each section's simple values as attributes to query."""
    write_json(group, "json", fingerprint)
    for name, section in sorted(fingerprint.items()):
        if isinstance(section, Mapping) and name != "json":
            write_attrs(group.create_group(link_name(name)), flatten(section))

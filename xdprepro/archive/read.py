# SPDX-License-Identifier: GPL-2.0-or-later
"""A sealed file back as the Run that was measured."""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xdprepro.archive.digest import content_digest
from xdprepro.archive.durable import read_file, sidecar, storage_error
from xdprepro.archive.hdf5 import HDF5_ERRORS, Dataset, File, Group, decode, explain, open_run, read_document, read_text
from xdprepro.archive.profiles import read_profiles
from xdprepro.archive.schema import ABSENT, BOOT_KINDS, BOOTS
from xdprepro.errors import STORAGE, XdpreproError
from xdprepro.sample import PHASES, SIDES, TRIAL_STATUSES, Boot, Reading, Run, Sample, Stream, Trial, TrialKey

_PHASES = dict(enumerate(PHASES, start=1))
_STATUSES = dict(enumerate(TRIAL_STATUSES, start=1))

Place = tuple[int, int]  # boot, trial
Samples = Mapping[Place, tuple[Sample, ...]]
Edges = Mapping[tuple[int, int, str], Mapping[str, tuple[Reading, ...]]]


def load_run(path: Path) -> Run:
    """The run of a sealed file, equal to the one that was sealed but for what canonical() evens out.

    Raises XdpreproError(status=STORAGE) for a file that is damaged or not the one its checksum is of, and for one of a
    newer major schema version.
    """
    with _open_sealed(path) as file:
        return read_run(file)


def load_flags(path: Path) -> tuple[dict[TrialKey, int], tuple[str, ...]]:
    """The flags of every trial as bit masks, and the names of the bits."""
    with _open_sealed(path) as file:
        names = tuple(read_text(file, "flag_names").split())
        return {key: mask for case_id, group in _iter_cases(file) for key, mask in _flags(case_id, group)}, names


@contextmanager
def _open_sealed(path: Path) -> Iterator[File]:
    """A file that is as it was sealed, by the checksum beside it, or without one by its content digest."""
    proven = _has_checksum(path)
    with open_run(path) as file:
        try:
            if not proven and content_digest(file) != read_text(file, "content_digest"):
                raise _damaged(path, "its content_digest is not that of its content")
            yield file
        except HDF5_ERRORS as error:
            raise _damaged(path, explain(error)) from error


def _has_checksum(path: Path) -> bool:
    """Whether there is a checksum beside a file; before libhdf5 sees a file, one that does not agree is refused."""
    try:
        found = hashlib.sha256(read_file(path)).hexdigest()
        wanted = read_file(sidecar(path)).decode(errors="replace").split()[:1] if sidecar(path).exists() else None
    except OSError as error:
        raise storage_error(error, path, "reading it") from None
    if wanted not in (None, [found]):
        raise _damaged(path, f"its SHA-256 is {found}, {sidecar(path).name} says {' '.join(wanted or ()) or 'nothing'}")
    return wanted is not None


def read_run(file: File) -> Run:
    """The run of an open file."""
    plan = json.loads(read_document(file, "plan"))
    documents = file["documents"]
    trials = [trial for case_id, group in _iter_cases(file) for trial in _read_case(case_id, group)]
    return Run(
        run_id=read_text(file, "run_id"),
        plan_id=read_text(file, "plan_id"),
        suite=read_text(file, "suite"),
        lab=read_text(file, "lab"),
        lab_kind=read_text(file, "lab_kind"),
        created_utc_ns=int(file.attrs["created_utc_ns"]),
        closed_utc_ns=int(file.attrs["closed_utc_ns"]),
        status=read_text(file, "status"),
        restarts=int(file.attrs["restarts"]),
        trials_per_restart=int(file.attrs["trials_per_restart"]),
        design=read_text(file, "design"),
        fingerprint=json.loads(read_document(file["fingerprint"], "json")),
        documents={
            read_text(documents[name], "name"): read_document(documents, name)
            for name in documents
            if "media_type" in documents[name].attrs
        },
        cases=dict(plan["cases"]),
        skipped=dict(plan["skipped"]),
        boots=_read_boots(file["boots"]),
        trials=tuple(sorted(trials, key=lambda trial: trial.slot)),
    )


def _iter_cases(file: File) -> list[tuple[str, Group]]:
    return [(read_text(group, "case_id"), group) for group in file["cases"].values()]


def _flags(case_id: str, group: Group) -> list[tuple[TrialKey, int]]:
    if "trial" not in group:
        return []
    flags = group["trial_flags"][()].tolist()
    return [(TrialKey(case_id, boot, trial), flags[boot][trial]) for boot, trial in _iter_trials(group)]


def _iter_trials(group: Group) -> list[tuple[int, int]]:
    """Where there is a trial, as boot and trial."""
    status = group["trial_status"][()]
    return [(int(boot), int(trial)) for boot, trial in zip(*status.nonzero(), strict=True)]


def _read_boots(group: Group) -> tuple[Boot, ...]:
    if "boot" not in group:
        return ()
    blank = [b""] * group["boot"].size
    names = ("boot", "boot_kind", "boot_id", "kernel_release", "t_boot_utc_ns", "port", "cmdline")
    columns = [blank if name not in group and BOOTS[name].optional else group[name][()].tolist() for name in names]
    return tuple(
        Boot(index, BOOT_KINDS[kind], decode(boot_id), decode(release), t_utc_ns, decode(port), decode(cmdline))
        for index, kind, boot_id, release, t_utc_ns, port, cmdline in zip(*columns, strict=True)
    )


def _read_case(case_id: str, group: Group) -> list[Trial]:
    if "trial" not in group:
        return []
    places = _iter_trials(group)
    reports = json.loads(read_document(group, "agent_reports"))
    samples = {"dut": _read_samples(group, places, _DUT_BLOCKS), "tester": {}}
    if "tester" in group:
        samples["tester"] = _read_samples(group["tester"], places, _TESTER_BLOCKS)
    edges = _read_edges(group["edges"], places) if "edges" in group else {}
    profiles = read_profiles(group["profile"]) if "profile" in group else {}
    column = {name: group[name][()].tolist() for name in ("trial_status", "slot", "t_epoch_ns")}
    trials = []
    for at in places:
        boot, trial = at
        report = reports[f"{boot}/{trial}"]
        said = {
            side: Stream(**report[side], samples=samples[side].get(at, ()), edges=edges.get((*at, side), {}))
            for side in SIDES
        }
        trials.append(
            Trial(
                key=TrialKey(case_id, boot, trial),
                slot=column["slot"][boot][trial],
                t_utc_ns=column["t_epoch_ns"][boot][trial],
                status=_STATUSES[column["trial_status"][boot][trial]],
                reason=report["reason"],
                profile=profiles.get(at),
                **said,
            )
        )
    return trials


# Group below the one with the stamps -> axes after the sample, and the name that a place on them stands for.
_Blocks = Mapping[str, tuple[tuple[str, ...], str]]
_DUT_BLOCKS: _Blocks = {
    "": (("cpu", "queue", "counter"), "xdp_prog.cpu{}.rxq{}.{}"),
    "xsk_app": (("xsk_queue", "xsk_counter"), "xsk_app.q{}.{}"),
    "other": (("other_counter",), "{}"),
}
_TESTER_BLOCKS: _Blocks = {"": (("tester_counter",), "{}")}


def _read_samples(group: Group, places: Sequence[Place], blocks: _Blocks) -> Samples:
    """The samples of every trial from the stamps of a group and the counters in it and below."""
    if "valid" not in group:
        return {}
    column = {name: group[name][()] for name in ("t0_ns", "t1_ns", "phase", "valid")}
    parts = [
        _read_block(group[name] if name else group, axes, form)
        for name, (axes, form) in blocks.items()
        if name in ("", *group)
    ]
    samples = {}
    for at in places:
        count = int((column["valid"][at] & ABSENT == 0).sum())
        stamps = zip(*(column[name][at].tolist()[:count] for name in ("phase", "t0_ns", "t1_ns")), strict=True)
        samples[at] = tuple(
            Sample(_PHASES[phase], t0_ns, t1_ns, {k: n for part in parts for k, n in part((*at, index))})
            for index, (phase, t0_ns, t1_ns) in enumerate(stamps)
        )
    return samples


def _read_block(group: Group, axes: Sequence[str], form: str) -> Callable[[tuple[int, ...]], list[tuple[str, int]]]:
    """A function from boot, trial, sample to the counters that were there, with their names."""
    if "counters" not in group:
        return lambda _: []
    names = [form.format(*place) for place in itertools.product(*(_read_scale(group[axis]) for axis in axes))]
    counters = group["counters"][()]
    there = group["present"][()] if "present" in group else counters
    counters, there = (array.reshape(*array.shape[:3], -1) for array in (counters, there))

    def read(at: tuple[int, ...]) -> list[tuple[str, int]]:
        found = there[at].nonzero()[0]
        return list(zip([names[one] for one in found], counters[at][found].tolist(), strict=True))

    return read


def _read_scale(dataset: Dataset) -> list[Any]:
    values = dataset[()].tolist()
    return [decode(value) if isinstance(value, bytes) else value for value in values]


def _read_edges(group: Group, places: Sequence[Place]) -> Edges:
    """The readings of every trial and side, by edge."""
    edges, sources = _read_scale(group["edge"]), _read_scale(group["edge_source"])
    column = {name: group[name][()] for name in ("source_present", "t0_ns", "t1_ns")}
    counters = _read_edge_counters(group, sources)
    found: dict[tuple[int, int, str], dict[str, tuple[Reading, ...]]] = {}
    for place, (edge, edge_name), source in itertools.product(places, enumerate(edges), range(len(sources))):
        at = (*place, edge, source)
        if column["source_present"][at]:
            side, _, name = sources[source].partition(".")
            reading = Reading(name, int(column["t0_ns"][at]), int(column["t1_ns"][at]), counters(at))
            readings = found.setdefault((*place, side), {})
            readings[edge_name] = (*readings.get(edge_name, ()), reading)
    return found


def _read_edge_counters(group: Group, sources: Sequence[str]) -> Callable[[tuple[int, ...]], dict[str, int]]:
    """A function from boot, trial, edge, source to the counters that were there."""
    if "edge_counter" not in group:
        return lambda _: {}
    values, present = group["values"][()], group["present"][()]
    names: dict[int, list[tuple[int, str]]] = {}
    texts = _read_scale(group["edge_counter"])
    for place, (text, source) in enumerate(zip(texts, group["source_index"][()].tolist(), strict=True)):
        names.setdefault(source, []).append((place, text[len(sources[source]) + 1 :]))

    def read(at: tuple[int, ...]) -> dict[str, int]:
        *edge, source = at
        row, there = values[tuple(edge)], present[tuple(edge)]
        return {name: int(row[place]) for place, name in names.get(source, ()) if there[place]}

    return read


def _damaged(path: Path, what: str) -> XdpreproError:
    return XdpreproError(
        f"{path}: damaged: {what}", hint=f"'xdprepro archive verify {path}' names what is damaged", status=STORAGE
    )

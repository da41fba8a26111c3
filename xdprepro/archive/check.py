# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether an open run file has the form that its schema prescribes, and nothing that a run file must not have."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from xdprepro.archive.digest import BOOKKEEPING
from xdprepro.archive.hdf5 import (
    HDF5_ERRORS,
    Dataset,
    File,
    Group,
    explain,
    filter_names,
    find_address,
    is_hard_link,
    read_text,
)
from xdprepro.archive.schema import BOOTS, CASE_GROUPS, SCHEMA_ID, TEXT, Var

ROOT_TEXTS = (
    "run_id",
    "plan_id",
    "suite",
    "lab",
    "lab_kind",
    "status",
    "design",
    "writer",
    "content_digest",
    "Conventions",
)
ROOT_NUMBERS = ("created_utc_ns", "closed_utc_ns", "restarts", "trials_per_restart")
ROOT_ITEMS = ("boots", "cases", "documents", "fingerprint", "plan", "schema")
FILTERS = ("shuffle", "deflate", "fletcher32")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, and with which file or object."""

    where: str
    what: str


def check_structure(file: File) -> list[Finding]:
    """All findings about the form of a file; every dataset and attribute is read whole."""
    return list(_iter_group_findings(file, "/", set())) or list(_iter_schema_findings(file))


def _iter_group_findings(group: Group, path: str, seen: set[int]) -> Iterator[Finding]:
    """Links that leave the file or go in circles, types and filters that readers cannot rely on, unreadable data."""
    seen.add(find_address(group))
    yield from _iter_attribute_findings(group, path)
    try:
        names = sorted(group)
    except HDF5_ERRORS as error:
        yield Finding(path, f"cannot be listed: {explain(error)}")
        return
    for name in names:
        below = f"{path.rstrip('/')}/{name}"
        try:
            if not is_hard_link(group, name):
                yield Finding(below, "is a link; a run file has hard links only")
                continue
            item = group[name]
            address = find_address(item)
        except HDF5_ERRORS as error:
            yield Finding(below, f"cannot be opened: {explain(error)}")
            continue
        if address in seen:
            yield Finding(below, "is a second name of another object")
        elif isinstance(item, Group):
            yield from _iter_group_findings(item, below, seen)
        elif isinstance(item, Dataset):
            seen.add(address)
            yield from _iter_attribute_findings(item, below)
            yield from _iter_dataset_findings(item, below)
        else:
            yield Finding(below, "is neither a group nor a dataset")


def _iter_attribute_findings(item: Group | Dataset, path: str) -> Iterator[Finding]:
    try:
        for name in item.attrs:
            attribute = item.attrs.get_id(name)
            if name not in BOOKKEEPING and not _is_plain(attribute.dtype):
                yield Finding(
                    f"{path}@{name}", f"has type {attribute.dtype}; only numbers and fixed-length text are allowed"
                )
            item.attrs[name]
    except HDF5_ERRORS as error:
        yield Finding(path, f"has an attribute that cannot be read: {explain(error)}")


def _iter_dataset_findings(dataset: Dataset, path: str) -> Iterator[Finding]:
    try:
        if dataset.is_virtual or dataset.external:
            yield Finding(path, "takes its data from another file")
        elif not _is_plain(dataset.dtype):
            yield Finding(path, f"has type {dataset.dtype}; only numbers and fixed-length text are allowed")
        elif dataset.chunks is None or filter_names(dataset) != FILTERS:
            yield Finding(
                path, f"has filters {filter_names(dataset)}, not {FILTERS}; without them damage goes unnoticed"
            )
        else:
            dataset[()]
    except HDF5_ERRORS as error:
        yield Finding(path, f"cannot be read: {explain(error)}")


def _is_plain(dtype: np.dtype) -> bool:
    return dtype.kind in "iuS" or dtype in (np.dtype("<f4"), np.dtype("<f8"))


def _iter_schema_findings(file: File) -> Iterator[Finding]:
    if read_text(file, "schema_id") != SCHEMA_ID:
        yield Finding("/@schema_id", f"is {read_text(file, 'schema_id')!r}, not {SCHEMA_ID!r}")
    yield from (Finding(f"/@{name}", "is missing") for name in ROOT_TEXTS if not read_text(file, name))
    for name in ROOT_NUMBERS:
        if name not in file.attrs or file.attrs[name].dtype != np.dtype("<i8"):
            yield Finding(f"/@{name}", "is missing or no whole number")
    missing = [name for name in ROOT_ITEMS if name not in file]
    yield from (Finding(f"/{name}", "is missing") for name in missing)
    if missing:
        return
    yield from _iter_table_findings(file["boots"], BOOTS, "/boots")
    for name, case in file["cases"].items():
        yield from _iter_case_findings(case, f"/cases/{name}")


def _iter_case_findings(case: Group, path: str) -> Iterator[Finding]:
    if not read_text(case, "case_id"):
        yield Finding(f"{path}@case_id", "is missing")
    if ("trial" in case) != ("agent_reports" in case):
        yield Finding(f"{path}/agent_reports", "is there without trials, or trials without it")
    for name, table in CASE_GROUPS.items():
        group = case.get(name) if name else case
        if isinstance(group, Group):
            yield from _iter_table_findings(group, table, f"{path}/{name}".rstrip("/"))
        elif group is not None:
            yield Finding(f"{path}/{name}", "is no group")


def _iter_table_findings(group: Group, table: Mapping[str, Var], path: str) -> Iterator[Finding]:
    """A variable is there if and only if its dimensions are, and looks as the table says."""
    scales = _find_scales(group)
    for name, var in table.items():
        where = f"{path}/{name}"
        if var.dims == (name,):
            if name in group and not group[name].is_scale:
                yield Finding(where, "is no dimension scale")
        elif (name in group) != all(dim in scales for dim in var.dims) and (name in group or not var.optional):
            yield Finding(where, f"is there without its dimensions {var.dims}, or they without it")
        if name in group:
            yield from _iter_var_findings(group[name], var, scales, where)


def _find_scales(group: Group) -> dict[str, Dataset]:
    """The scales of all dimensions that are known in a group: its own and those of the groups above."""
    above = _find_scales(group.parent) if group.name != "/" else {}
    return above | {name: item for name, item in group.items() if isinstance(item, Dataset) and item.is_scale}


def _iter_var_findings(dataset: Dataset, var: Var, scales: Mapping[str, Dataset], where: str) -> Iterator[Finding]:
    if dataset.dtype.kind != "S" if var.dtype == TEXT else dataset.dtype != np.dtype(var.dtype):
        yield Finding(where, f"has type {dataset.dtype}, not {var.dtype}")
    if dataset.shape != tuple(scales[dim].size for dim in var.dims if dim in scales):
        yield Finding(where, f"has shape {dataset.shape}, which is not that of {var.dims}")
    elif not dataset.is_scale:
        for dim, attached in zip(var.dims, dataset.dims, strict=True):
            if len(attached) != 1 or find_address(attached[0]) != find_address(scales[dim]):
                yield Finding(where, f"has another dimension where {dim} belongs")
    if var.values and read_text(dataset, "flag_meanings") != " ".join(var.values):
        yield Finding(f"{where}@flag_meanings", f"is {read_text(dataset, 'flag_meanings')!r}")
    elif var.values and dataset[()].size and int(dataset[()].max()) >= len(var.values):
        yield Finding(where, "has a value without a meaning")

# SPDX-License-Identifier: GPL-2.0-or-later
"""One number for all that a run file says, however HDF5 lays it out."""

import hashlib
from collections.abc import Iterator

import numpy as np

from xdprepro.archive.hdf5 import Dataset, Group

# How HDF5 itself keeps dimension scales; dimensions count by their names instead.
BOOKKEEPING = ("CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST")
NOT_DIGESTED = (*BOOKKEEPING, "content_digest")


def iter_items(group: Group, path: str = "/") -> Iterator[tuple[str, Group | Dataset]]:
    """A group and all below it, in the order of their names."""
    yield path, group
    for name in sorted(group):
        item = group[name]
        below = f"{path.rstrip('/')}/{name}"
        if isinstance(item, Group):
            yield from iter_items(item, below)
        else:
            yield below, item


def dimension_names(dataset: Dataset) -> list[str]:
    """The names of the scales attached to each axis; an axis without one, or whose scale has no name left, has none."""
    return [(dim[0].name or "").rpartition("/")[2] if len(dim) else "" for dim in dataset.dims]


def content_digest(file: Group) -> str:
    """SHA-256 over paths, attributes, types, shapes, dimension names and values, as archive/README.md defines it."""
    digest = hashlib.sha256()

    def add(*fields: str | bytes) -> None:
        for field in fields:
            data = field.encode() if isinstance(field, str) else field
            digest.update(b"%d:" % len(data) + data)

    for path, item in iter_items(file):
        add(path)
        for name in sorted(set(item.attrs) - set(NOT_DIGESTED)):
            attribute = item.attrs.get_id(name)
            value = np.zeros(attribute.shape, attribute.dtype)
            attribute.read(value)
            add(name, value.dtype.str, _shape(value.shape), value.tobytes())
        if isinstance(item, Dataset):
            add(item.dtype.str, _shape(item.shape), *dimension_names(item), item[()].tobytes())
    return digest.hexdigest()


def _shape(shape: tuple[int, ...]) -> str:
    return ",".join(map(str, shape))

# SPDX-License-Identifier: GPL-2.0-or-later
"""One number for all that a run file says, however HDF5 lays it out."""

import hashlib
from collections.abc import Iterator

import numpy as np

from xdprepro.archive.hdf5 import Dataset, Group, find_address

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


def content_digest(file: Group) -> str:
    """SHA-256 over paths, attributes, types, shapes, dimension names and values, as archive/README.md defines it."""
    digest = hashlib.sha256()

    def add(*fields: str | bytes) -> None:
        for field in fields:
            data = field.encode() if isinstance(field, str) else field
            digest.update(b"%d:" % len(data) + data)

    items = list(iter_items(file))
    # Asking HDF5 for the name of the object behind a reference makes it search the file.
    names = {find_address(item): path.rpartition("/")[2] for path, item in items}
    for path, item in items:
        add(path)
        for name in sorted(set(item.attrs) - set(NOT_DIGESTED)):
            attribute = item.attrs.get_id(name)
            value = np.zeros(attribute.shape, attribute.dtype)
            attribute.read(value)
            add(name, value.dtype.str, _shape(value.shape), value.tobytes())
        if isinstance(item, Dataset):
            dims = [names[find_address(dim[0])] if len(dim) else "" for dim in item.dims]
            add(item.dtype.str, _shape(item.shape), *dims, item[()].tobytes())
    return digest.hexdigest()


def _shape(shape: tuple[int, ...]) -> str:
    return ",".join(map(str, shape))

# SPDX-License-Identifier: GPL-2.0-or-later
"""The few ways in which HDF5 is used here: checksummed variables, documents, fixed-length text, safe opening.

This module alone imports h5py.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Before libhdf5 starts: never load a filter from wherever a file or the environment says.
os.environ["HDF5_PLUGIN_PRELOAD"] = "::"

import h5py
import numpy as np
import numpy.typing as npt
from h5py import Dataset as Dataset
from h5py import File as File
from h5py import Group as Group

from xdprepro.archive.schema import SCHEMA_VERSION, TEXT, Var
from xdprepro.errors import STORAGE, XdpreproError

Array = npt.NDArray[Any]

# What reading a damaged or foreign file raises, by experiment: tests/archive/test_flips.py.
HDF5_ERRORS = (OSError, RuntimeError, LookupError, ValueError, TypeError, AttributeError, OverflowError, MemoryError)

LIBVER = ("v110", "v110")  # any HDF5 since 1.10 reads it, and every structure of the file has a checksum
FILTERS: Mapping[str, Any] = {"compression": "gzip", "compression_opts": 4, "shuffle": True, "fletcher32": True}
CHUNK_BYTES = 8 << 20
TEXT_STEP = 64
ATTRIBUTE_BYTES = 4096  # HDF5 stops at 64 KiB; longer text is in a document
# The name that netCDF-4 gives to the scale of a dimension without coordinates.
BARE_DIMENSION = "This is a netCDF dimension but not a netCDF variable. "


def explain(error: Exception) -> str:
    """What went wrong, without the quotes that a KeyError puts round it."""
    return str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)


def encode(text: str) -> bytes:
    """UTF-8; half of a surrogate pair, which JSON can carry, survives."""
    return text.encode("utf-8", "surrogatepass")


def decode(data: bytes) -> str:
    """What encode() was given."""
    return bytes(data).decode("utf-8", "surrogatepass")


def clip(text: str, limit: int) -> str:
    """As much of a text as fits into so many bytes."""
    return encode(text)[:limit].decode("utf-8", "ignore") if len(encode(text)) > limit else text


def text_array(texts: Any) -> Array:
    """Texts, in lists of any depth, as a fixed-length UTF-8 array."""
    array = np.array(texts, dtype=object)
    data = [encode(text) for text in array.ravel()]
    width = -(-max(map(len, data), default=1) // TEXT_STEP) * TEXT_STEP or TEXT_STEP
    return np.array(data, dtype=h5py.string_dtype("utf-8", width)).reshape(array.shape)


def chunk_shape(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """One chunk a boot; of what is too large for that one chunk a trial, then one a sample."""
    chunk = list(shape)
    if len(shape) > 1:
        chunk[0] = 1
    for axis in range(1, len(shape) - 1):
        if np.prod(chunk, dtype=object) * itemsize <= CHUNK_BYTES:
            break
        chunk[axis] = 1
    return tuple(chunk)


def write_var(group: Group, name: str, var: Var, data: Any, *, masks: tuple[str, ...] = ()) -> None:
    """A variable of the schema with its attributes and dimensions, whose scales must be there already."""
    array = text_array(data) if var.dtype == TEXT else np.asarray(data, dtype=var.dtype)
    dataset = _create(group, name, array)
    write_attrs(dataset, {"long_name": var.about, "unit": var.unit})
    if var.values:
        dataset.attrs.create("flag_values", np.arange(len(var.values), dtype=var.dtype))
    if bits := masks or var.masks:
        dataset.attrs.create("flag_masks", np.array([1 << bit for bit in range(len(bits))], dtype=var.dtype))
    write_attrs(dataset, {"flag_meanings": " ".join(var.values or bits)})
    if var.dims == (name,):
        dataset.make_scale(name)
        return
    for axis, dim in enumerate(var.dims):
        dataset.dims[axis].attach_scale(_find_scale(group, dim))


def write_document(group: Group, name: str, text: str, media_type: str) -> None:
    """A text of any length as bytes, along a dimension of its own; an empty one is one byte with `size` 0."""
    data = np.frombuffer(encode(text) or b"\0", "|u1")
    scale = _create(group, f"{name}_byte", np.zeros(data.shape, "|u1"))
    scale.make_scale(f"{BARE_DIMENSION}{data.size:10d}")
    dataset = _create(group, name, data)
    dataset.dims[0].attach_scale(scale)
    dataset.attrs.create("size", len(encode(text)), dtype="<i8")
    write_attrs(dataset, {"media_type": media_type})


def write_json(group: Group, name: str, value: Any) -> None:
    """A JSON document, in one spelling."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    write_document(group, name, text, "application/json")


def read_document(group: Group, name: str) -> str:
    """The text of a document."""
    dataset = group[name]
    return decode(dataset[()].tobytes()[: int(dataset.attrs["size"])])


def write_attrs(item: Group | Dataset, values: Mapping[str, Any]) -> None:
    """Small attributes: text of fixed length, numbers, lists of whole numbers; what is empty or null is left out."""
    for name, value in sorted(values.items()):
        if isinstance(value, str) and value:
            data = encode(clip(value, ATTRIBUTE_BYTES))
            item.attrs.create(name, np.array(data, dtype=h5py.string_dtype("utf-8", len(data))))
        elif isinstance(value, bool):
            item.attrs.create(name, value, dtype="|u1")
        elif isinstance(value, int) and -(2**63) <= value < 2**63:
            item.attrs.create(name, value, dtype="<i8")
        elif isinstance(value, float):
            item.attrs.create(name, value, dtype="<f8")
        elif isinstance(value, list) and value and all(type(one) is int and abs(one) < 2**63 for one in value):
            item.attrs.create(name, np.array(value, "<i8"))


def read_text(item: Group | Dataset, name: str) -> str:
    """A text attribute; an empty one is not stored."""
    value = item.attrs.get(name, b"")
    return value if isinstance(value, str) else decode(value)


def is_hard_link(group: Group, name: str) -> bool:
    """Whether a name stands for an object of this file, rather than for a path in this or another file."""
    return isinstance(group.get(name, getlink=True), h5py.HardLink)


def find_address(item: Group | Dataset) -> int:
    """What tells an object from every other of its file."""
    return int(h5py.h5o.get_info(item.id).addr)


def filter_names(dataset: Dataset) -> tuple[str, ...]:
    """The filters of a dataset in the order in which they are applied on writing."""
    plist = dataset.id.get_create_plist()
    return tuple(plist.get_filter(at)[3].decode() for at in range(plist.get_nfilters()))


def open_run(path: Path) -> File:
    """A sealed file, open for reading; one of a newer major version is refused by name."""
    try:
        # No lock: a sealed file never changes, and locks fail on many network file systems.
        file = h5py.File(path, "r", locking=False)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else explain(error)
        raise XdpreproError(f"{path}: cannot be opened: {reason}", status=STORAGE) from None
    try:
        check_version(read_text(file, "schema_version"), read_text(file, "min_reader_version"), path)
    except HDF5_ERRORS as error:
        file.close()
        raise XdpreproError(f"{path}: no run file: {explain(error)}", status=STORAGE) from None
    except XdpreproError:
        file.close()
        raise
    return file


def check_version(version: str, min_reader: str, path: Path) -> None:
    """Refuse what this reader cannot know the meaning of."""
    major = version.split(".")[0]
    if not major.isdigit():
        raise XdpreproError(f"{path}: no run file: it has no schema_version", status=STORAGE)
    ours = SCHEMA_VERSION.split(".")[0]
    if int(major) != int(ours):
        raise XdpreproError(
            f"{path}: schema version {version}, this xdprepro reads {ours}.x",
            hint=f"read it with xdprepro {min_reader or 'of a newer release'} or newer",
            status=STORAGE,
        )


def _create(group: Group, name: str, array: Array) -> Dataset:
    chunks = chunk_shape(array.shape, array.dtype.itemsize)
    return group.create_dataset(name, data=array, chunks=chunks, track_times=False, **FILTERS)


def _find_scale(group: Group, dim: str) -> Dataset:
    """The scale in this group or in the nearest group above, where netCDF-4 looks for it."""
    while dim not in group:
        if group.name == "/":
            raise KeyError(dim)
        group = group.parent
    return group[dim]

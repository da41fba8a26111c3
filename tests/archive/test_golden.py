# SPDX-License-Identifier: GPL-2.0-or-later
"""What every version of the format wrote is read for ever: one small run of each, beside the journal it is from."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from made import FLAG_NAMES, make_flags

from xdprepro.archive import canonical, list_runs, load_flags, load_run, read_journal, seal, verify_run
from xdprepro.archive.digest import BOOKKEEPING, iter_items
from xdprepro.archive.hdf5 import open_run
from xdprepro.archive.schema import SCHEMA_VERSION
from xdprepro.sample import Run, parse_journal

GOLDEN = Path(__file__).parent / "golden"
SHA256 = {
    "1.0.0": "97534ee6e11fc4b9d845c5d6382c2db7402eed56d75c9a99a04a895dada1d59d",
    "1.1.0": "02472ca55ed975c38566da650e38446146533f62f1d312e6bf932da08eaa2e9c",
}


def golden_file(version: str) -> Path:
    [path] = (GOLDEN / version).glob("*.h5")
    return path


def golden_run(version: str) -> Run:
    return parse_journal(read_journal(golden_file(version).with_suffix(".journal")))


def test_every_version_has_its_file() -> None:
    assert sorted(SHA256) == sorted(path.name for path in GOLDEN.iterdir())
    assert SCHEMA_VERSION in SHA256


@pytest.fixture(params=SHA256)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_files_are_as_they_were_written(version: str) -> None:
    assert hashlib.sha256(golden_file(version).read_bytes()).hexdigest() == SHA256[version]


def test_old_file_is_whole_and_holds_what_its_journal_says(version: str) -> None:
    path, run = golden_file(version), golden_run(version)
    assert verify_run(path) == []
    assert canonical(load_run(path)) == canonical(run)
    assert load_flags(path) == (make_flags(run), FLAG_NAMES)
    [info] = list_runs(path.parent)
    assert (info.schema_version, info.problem, info.trials) == (version, "", len(run.trials))


def everything(path: Path) -> Iterator[tuple[str, bytes]]:
    """All that a file says, piece by piece."""
    with open_run(path) as file:
        for name, item in iter_items(file):
            for key in item.attrs:
                if key not in BOOKKEEPING:
                    yield f"{name}@{key}", np.asarray(item.attrs[key]).tobytes()
            if isinstance(item, h5py.Dataset):
                yield name, item[()].tobytes()


def test_run_without_profiles_is_stored_as_in_format_1_0_0(tmp_path: Path) -> None:
    run = golden_run("1.0.0")
    old = dict(everything(golden_file("1.0.0")))
    new = dict(everything(seal(run, tmp_path, make_flags(run), FLAG_NAMES)))
    assert old.keys() == new.keys()
    assert {name for name in old if old[name] != new[name]} <= {
        "/@schema_version",
        "/@content_digest",
        "/@writer",
        "/schema/schema_json",
        "/schema/schema_json@size",
        "/schema/schema_json_byte",
    }

# SPDX-License-Identifier: GPL-2.0-or-later
"""One wrong bit anywhere in a file: noticed or harmless, never a wrong number, even without the checksum beside it."""

import multiprocessing
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import pytest
from made import FLAG_NAMES, add_profiles, make_flags, make_run

from xdprepro.archive import load_run, seal
from xdprepro.archive.digest import BOOKKEEPING
from xdprepro.archive.hdf5 import HDF5_ERRORS
from xdprepro.errors import XdpreproError

FLIPS = 2000
CASE = "xsk.rxdrop.native.copy.60B"


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small file that has every kind of group."""
    run = make_run(boots=2, trials=1, samples=3, documents={"suite": "x"})
    run = replace(run, cases={CASE: run.cases[CASE]}, trials=tuple(t for t in run.trials if t.key.case_id == CASE))
    run = add_profiles(run, CASE)
    return seal(run, tmp_path_factory.mktemp("runs"), make_flags(run), FLAG_NAMES).read_bytes()


def read_everything(path: Path) -> list[Any]:
    """The run, and every flag and attribute as h5py shows it."""
    shown: list[Any] = []

    def keep(name: str, item: Any) -> None:
        shown.extend((name, key, str(item.attrs[key])) for key in sorted(item.attrs) if key not in BOOKKEEPING)
        if name.endswith("trial_flags"):
            shown.append(item[()].tolist())

    run = load_run(path)
    with h5py.File(path, "r", locking=False) as file:
        file.visititems(keep)
        keep("/", file)
    return [run, shown]


def flip(data: bytes, bit: int) -> bytes:
    flipped = bytearray(data)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


def judge(path: Path, data: bytes, wanted: list[Any], bits: list[int], results: Any) -> None:
    """Read the file with each bit flipped in turn; the verdicts go into a pipe, as the reader may die."""
    for bit in bits:
        path.write_bytes(flip(data, bit))
        try:
            results.send("harmless" if read_everything(path) == wanted else f"silent at {bit}")
        except (XdpreproError, *HDF5_ERRORS):
            results.send("noticed")


def iter_verdicts(path: Path, data: bytes, wanted: list[Any], bits: list[int]) -> Iterator[str]:
    """One verdict a bit; a reader that hangs or dies is started anew behind the bit."""
    fork = multiprocessing.get_context("fork")
    while bits:
        ours, theirs = fork.Pipe(duplex=False)
        reader = fork.Process(target=judge, args=(path, data, wanted, bits, theirs))
        reader.start()
        theirs.close()
        try:
            while bits:
                if not ours.poll(20):
                    raise EOFError
                yield str(ours.recv())
                bits = bits[1:]
        except EOFError:
            yield f"reader ended at {bits[0]}"
            bits = bits[1:]
        reader.kill()
        reader.join()


def test_no_flipped_bit_gives_wrong_data_silently(tmp_path: Path, sealed: bytes) -> None:
    path = tmp_path / "flipped.h5"
    path.write_bytes(sealed)
    wanted = read_everything(path)
    bits = random.Random(1).sample(range(len(sealed) * 8), FLIPS)
    verdicts = Counter(iter_verdicts(path, sealed, wanted, bits))
    assert verdicts.total() == FLIPS
    assert [verdict for verdict in verdicts if verdict.startswith("silent")] == []
    # If nothing were noticed, or everything, the test would not test what it says.
    assert verdicts["noticed"] > FLIPS / 4
    assert verdicts["harmless"] > 0

# SPDX-License-Identifier: GPL-2.0-or-later
"""Verifying: every kind of damage and every forbidden construct is found and named, and a whole file is clean."""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from disks import start_as_nobody
from made import FLAG_NAMES, add_profiles, make_flags, make_run

from xdprepro.archive import Finding, load_flags, load_run, seal, verify_run
from xdprepro.archive.digest import content_digest
from xdprepro.errors import STORAGE, XdpreproError
from xdprepro.sample import Run

CASE = "xdp.drop.no-touch.native.60B"
WHERE = f"/cases/{CASE}"
RUN = add_profiles(make_run(boots=2, trials=1, samples=3), CASE)
RUN = replace(RUN, trials=tuple(replace(t, profile=None) if t.key.boot == 0 else t for t in RUN.trials))


def seal_made(run: Run, directory: Path) -> Path:
    path = seal(run, directory, make_flags(run), FLAG_NAMES)
    for one in directory.iterdir():
        one.chmod(0o644)
    return path


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return seal_made(RUN, tmp_path_factory.mktemp("runs"))


@pytest.fixture
def sealed(original: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(original.parent, tmp_path / "runs")) / original.name


def where(path: Path) -> set[str]:
    return {finding.where for finding in verify_run(path)}


def test_whole_file_has_no_findings(sealed: Path) -> None:
    assert verify_run(sealed) == []


def test_missing_file_is_a_finding(tmp_path: Path) -> None:
    assert verify_run(tmp_path / "x.h5") == [Finding("x.h5", "there is no such file")]


def test_file_of_another_user_is_a_finding(sealed: Path) -> None:
    sealed.parent.chmod(0o700)
    with start_as_nobody():
        assert verify_run(sealed) == [Finding(sealed.name, "cannot be read: Permission denied")]


@pytest.mark.parametrize("suffix", [".h5.sha256", ".json"])
def test_missing_file_beside_it_is_a_finding(sealed: Path, suffix: str) -> None:
    sealed.with_name(f"{sealed.stem}{suffix}").unlink()
    assert where(sealed) == {f"{sealed.stem}{suffix}"}


@pytest.mark.parametrize("content", ["", "rubbish", "0" * 64 + "  other.h5\n", "\x00\xff"])
def test_checksum_file_that_is_none_is_a_finding(sealed: Path, content: str) -> None:
    sealed.with_name(f"{sealed.name}.sha256").write_text(content)
    assert where(sealed) == {f"{sealed.name}.sha256"}


def test_swapped_file_is_found_though_it_is_whole(sealed: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = seal_made(replace(RUN, run_id="01900000-0000-7000-8000-000000000009"), tmp_path_factory.mktemp("other"))
    sealed.write_bytes(other.read_bytes())
    found = verify_run(sealed)
    assert any("SHA-256" in finding.what for finding in found)
    assert Finding("/", f"run_id is 01900000-0000-7000-8000-000000000009, the file is named {sealed.name}") in found


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 47, 48, 96, 1000, 30_000, -1])
def test_truncated_file_is_found_by_every_reader(sealed: Path, keep: int) -> None:
    data = sealed.read_bytes()[:keep]
    sealed.write_bytes(data)
    found = verify_run(sealed)
    assert any("SHA-256" in finding.what for finding in found)
    assert any("cannot be" in finding.what for finding in found)
    sealed.with_name(f"{sealed.name}.sha256").unlink()
    with pytest.raises(XdpreproError) as caught:
        load_run(sealed)
    assert caught.value.status == STORAGE


def test_changed_file_is_not_loaded_while_its_checksum_is_there(sealed: Path) -> None:
    with h5py.File(sealed, "r+") as file:
        file.attrs["suite"] = np.bytes_(b"other")
    with pytest.raises(XdpreproError, match=f"{sealed}: damaged: its SHA-256 is"):
        load_run(sealed)


def chunk_offset(path: Path, name: str) -> tuple[int, int]:
    """Where the first chunk of a dataset lies, and how long it is."""
    with h5py.File(path) as file:
        chunk = file[name].id.get_chunk_info(0)
        return chunk.byte_offset, chunk.size


@pytest.mark.parametrize("name", ["counters", "counter", "t0_ns", "edges/values", "profile/insn", "agent_reports"])
def test_flipped_bit_in_a_dataset_names_the_dataset(sealed: Path, name: str) -> None:
    offset, size = chunk_offset(sealed, f"{WHERE}/{name}")
    data = bytearray(sealed.read_bytes())
    data[offset + size // 2] ^= 8
    sealed.write_bytes(data)
    found = [finding for finding in verify_run(sealed) if "SHA-256" not in finding.what]
    assert [finding.where for finding in found] == [f"{WHERE}/{name}"]
    assert "cannot be read" in found[0].what


def test_flipped_bits_anywhere_are_findings_and_never_an_exception(sealed: Path) -> None:
    data = sealed.read_bytes()
    for bit in random.Random(3).sample(range(len(data) * 8), 12):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        sealed.write_bytes(flipped)
        assert any("SHA-256" in finding.what for finding in verify_run(sealed)), bit


def test_damage_on_which_libhdf5_loops_is_a_finding(sealed: Path) -> None:
    # The global heap has no checksum: an object of enormous size makes its reader count round the address space.
    data = bytearray(sealed.read_bytes())
    heap = data.index(b"GCOL")
    data[heap + 16 + 8 : heap + 16 + 16] = (2**64 - 16).to_bytes(8, "little")
    sealed.write_bytes(data)
    found = verify_run(sealed, limit_s=5)
    assert any("SHA-256" in finding.what for finding in found)
    assert any("cannot be read" in finding.what or "reading it" in finding.what for finding in found)


def spoil(path: Path, change: Callable[[Any], None], *, digest: bool = True) -> list[Finding]:
    """The findings after a change by someone who keeps all checksums right."""
    with h5py.File(path, "r+", libver=("v110", "v110")) as file:
        change(file)
        if digest:
            del file.attrs["content_digest"]
            file.attrs["content_digest"] = np.bytes_(content_digest(file).encode())
    data = path.read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    path.with_name(f"{path.name}.sha256").write_text(f"{sha256}  {path.name}\n")
    manifest = path.with_suffix(".json")
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"sha256": sha256, "size_bytes": len(data)}))
    return verify_run(path)


def set_value(name: str, at: Any, value: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        file[name][at] = value

    return change


FILTERS = {"compression": "gzip", "shuffle": True, "fletcher32": True}
FORBIDDEN: dict[str, Callable[[Any], Any]] = {
    "soft": lambda file: file.__setitem__("soft", h5py.SoftLink("/boots")),
    "dangling": lambda file: file.__setitem__("dangling", h5py.SoftLink("/nowhere")),
    "external": lambda file: file.__setitem__("external", h5py.ExternalLink("other.h5", "/")),
    "cycle": lambda file: file.__setitem__("cycle", file["cases"]),
    "contiguous": lambda file: file.create_dataset("contiguous", data=[1, 2]),
    "text": lambda file: file.create_dataset("text", data="variable length"),
    "vlen": lambda file: file.create_dataset("vlen", (2,), h5py.vlen_dtype("u8"), chunks=(2,)),
    "half": lambda file: file.create_dataset("half", (2,), "f2", chunks=(2,), **FILTERS),
    "compound": lambda file: file.create_dataset("compound", (2,), np.dtype([("a", "u1")]), chunks=(2,), **FILTERS),
    "truth": lambda file: file.create_dataset("truth", (2,), bool, chunks=(2,), **FILTERS),
    "named": lambda file: file.__setitem__("named", np.dtype("u8")),
    "virtual": lambda file: file.create_virtual_dataset("virtual", h5py.VirtualLayout((2,), "u8")),
    "raw": lambda file: file.create_dataset("raw", (2,), "u1", external="raw.bin"),
    "nofletcher": lambda file: file.create_dataset("nofletcher", (2,), "u1", chunks=(2,), compression="gzip"),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_forbidden_construct_is_named(sealed: Path, name: str) -> None:
    assert {finding.where for finding in spoil(sealed, FORBIDDEN[name], digest=False)} == {f"/{name}"}


def test_attribute_of_variable_length_is_named(sealed: Path) -> None:
    found = spoil(sealed, lambda file: file["boots"].attrs.__setitem__("note", "text"), digest=False)
    assert {finding.where for finding in found} == {"/boots@note"}


def delete(name: str) -> Callable[[Any], None]:
    return lambda file: file.__delitem__(name)


def name_all_alike(file: Any) -> None:
    file[f"{WHERE}/profile/function"][...] = b"f"
    file[f"{WHERE}/profile/side"][...] = 0


def set_port(file: Any) -> None:
    del file["boots/port"]
    file.create_dataset("boots/port", (2,), "u1", chunks=(2,), **FILTERS)


CONTRADICTIONS: dict[str, tuple[Callable[[Any], None], str]] = {
    "variable gone": (delete(f"{WHERE}/valid"), f"{WHERE}/valid"),
    "scale renamed": (lambda file: file.move(f"{WHERE}/sample", f"{WHERE}/elsewhere"), f"{WHERE}/counters"),
    "boots gone": (delete("boots"), "/boots"),
    "attribute gone": (lambda file: file.attrs.__delitem__("suite"), "/@suite"),
    "schema unknown": (lambda file: file.attrs.__setitem__("schema_id", np.bytes_(b"x")), "/@schema_id"),
    "status without meaning": (set_value(f"{WHERE}/trial_status", (0, 0), 9), f"{WHERE}/trial_status"),
    "flag without name": (set_value(f"{WHERE}/trial_flags", (0, 0), 1 << 20), f"{WHERE}/trial_flags"),
    "boot unknown": (set_value(f"{WHERE}/boot", 1, 7), f"{WHERE}/boot"),
    "boot order": (set_value("boots/boot", 1, 0), "/boots/boot"),
    "group replaced": (lambda file: file.move(f"{WHERE}/slot", f"{WHERE}/xsk_app"), f"{WHERE}/xsk_app"),
    "slot twice": (lambda file: file[f"{WHERE}/slot"].__setitem__((0, 0), file[f"{WHERE}/slot"][1, 0]), "/cases"),
    "case unknown": (lambda file: file.move(WHERE, "/cases/renamed"), "/cases"),
    "reason differs": (set_value(f"{WHERE}/trial_reason", (0, 0), b"other"), f"{WHERE}/trial_reason"),
    "counter falls": (set_value(f"{WHERE}/counters", (0, 0, 1, 0, 0, 1), 5), WHERE),
    "time falls": (set_value(f"{WHERE}/t0_ns", (0, 0, 1), 5), WHERE),
    "tester's counter falls": (set_value(f"{WHERE}/tester/counters", (0, 0, 1, 1), 5), WHERE),
    "instructions lost": (set_value(f"{WHERE}/profile/insn", (1, 0, 0), 1), f"{WHERE}/profile"),
    "packets of no profile": (set_value(f"{WHERE}/profile/packets", (0, 0), 1), f"{WHERE}/profile/packets"),
    "counts of no profile": (set_value(f"{WHERE}/profile/insn", (0, 0, 0), 1), f"{WHERE}/profile/insn"),
    "loads of no profile": (set_value(f"{WHERE}/profile/memory/loads", (0, 0, 0), 1), f"{WHERE}/profile/memory/loads"),
    "profile of no trial": (set_value(f"{WHERE}/trial_status", (1, 0), 0), f"{WHERE}/profile/present"),
    "memory of no profile": (set_value(f"{WHERE}/profile/present", (1, 0), 0), f"{WHERE}/profile/memory/present"),
    "side without meaning": (set_value(f"{WHERE}/profile/side", 0, 9), f"{WHERE}/profile/side"),
    "row twice": (name_all_alike, f"{WHERE}/profile/function"),
    "counts gone": (delete(f"{WHERE}/profile/insn"), f"{WHERE}/profile/insn"),
    "port of another type": (set_port, "/boots/port"),
    "phase falls": (set_value(f"{WHERE}/phase", (0, 0, 0), 3), WHERE),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradiction_is_named(sealed: Path, name: str) -> None:
    change, wanted = CONTRADICTIONS[name]
    assert wanted in {finding.where for finding in spoil(sealed, change)}


def test_dimensions_in_another_order_are_named(sealed: Path) -> None:
    def change(file: Any) -> None:
        case = file[WHERE]
        case["slot"].dims[0].detach_scale(case["boot"])
        case["slot"].dims[0].attach_scale(case["trial"])

    assert {finding.where for finding in spoil(sealed, change)} == {f"{WHERE}/slot"}


def test_change_that_keeps_every_checksum_breaks_the_content_digest(sealed: Path) -> None:
    found = spoil(sealed, set_value(f"{WHERE}/counters", (0, 0, 2, 0, 0, 1), 2**63), digest=False)
    assert found == [Finding("/", "content_digest is not that of the content")]
    assert load_run(sealed)
    sealed.with_name(f"{sealed.name}.sha256").unlink()
    for load in (load_run, load_flags):
        with pytest.raises(XdpreproError, match=f"{sealed}: damaged: its content_digest") as caught:
            load(sealed)
        assert caught.value.status == STORAGE


@pytest.mark.parametrize("suffix", [".h5.sha256", ".json"])
def test_pipe_beside_a_file_is_a_finding(sealed: Path, suffix: str) -> None:
    beside = sealed.with_name(f"{sealed.stem}{suffix}")
    beside.unlink()
    os.mkfifo(beside)
    assert where(sealed) == {beside.name}

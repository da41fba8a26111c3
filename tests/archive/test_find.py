# SPDX-License-Identifier: GPL-2.0-or-later
"""Finding runs: by path, id, beginning and age, whatever lies in the folder."""

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from disks import start_as_nobody
from made import FLAG_NAMES, T_UTC_NS, make_flags, make_run

from xdprepro.archive import find_run, list_runs, load_run, make_run_id, seal
from xdprepro.archive.digest import content_digest
from xdprepro.errors import STORAGE, USAGE, XdpreproError

IDS = [
    "01900000-0000-7000-8000-00000000000a",
    "01900000-0000-7000-8000-00000000000b",
    "02345678-0000-7000-8000-00000000000c",
]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs; the middle id is the newest."""
    folder = tmp_path_factory.mktemp("runs")
    for run_id, age_s in zip(IDS, (20, 0, 10), strict=True):
        run = make_run(run_id=run_id, boots=1, trials=1, samples=2, created_utc_ns=T_UTC_NS - age_s * 10**9)
        seal(run, folder, make_flags(run), FLAG_NAMES)
    return folder


@pytest.fixture
def archive(original: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(original, tmp_path / "runs"))


@pytest.mark.parametrize(
    ("selector", "number"),
    [
        (IDS[0], 0),
        ("0234", 2),
        ("02345678-0000", 2),
        ("01900000-0000-7000-8000-00000000000b", 1),
        ("latest", 1),
        ("latest~0", 1),
        ("latest~1", 2),
        ("latest~2", 0),
    ],
)
def test_selector_means_one_run(archive: Path, selector: str, number: int) -> None:
    assert find_run(archive, selector) == archive / f"{IDS[number]}.h5"


def test_path_means_the_file_wherever_it_is(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = archive / f"{IDS[0]}.h5"
    elsewhere = tmp_path_factory.mktemp("empty")
    assert find_run(elsewhere, str(path)) == path


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("0190", f"begins 2 run ids: {IDS[0]}, {IDS[1]}"),
        ("023", "too short, give at least 4 characters"),
        ("ffff", f"no run of .* has this id; .*{IDS[2]}"),
        ("latest~3", "has 3 sealed runs"),
        ("latest~", "no run of"),
        ("latest~x", "no run of"),
        ("", "too short"),
        ("nowhere/x.h5", "there is no such file"),
        ("x.h5", "there is no such file"),
    ],
)
def test_selector_that_means_none_or_several_is_a_usage_error(archive: Path, selector: str, message: str) -> None:
    with pytest.raises(XdpreproError, match=message) as caught:
        find_run(archive, selector)
    assert caught.value.status == USAGE
    assert caught.value.hint


def test_empty_or_missing_folder_has_no_latest(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(XdpreproError, match="has 0 sealed runs") as caught:
            find_run(folder, "latest")
        assert "xdprepro run" in caught.value.hint
        assert list_runs(folder) == []


def test_list_is_in_order_of_creation(archive: Path) -> None:
    assert [info.run_id for info in list_runs(archive)] == [IDS[0], IDS[2], IDS[1]]


def test_list_needs_no_hdf5_file_while_the_manifests_fit(archive: Path) -> None:
    wanted = list_runs(archive)
    path = archive / f"{IDS[0]}.h5"
    path.chmod(0o644)
    path.write_bytes(bytes(path.stat().st_size))
    assert list_runs(archive) == wanted


DAMAGES = [
    *("missing", "cut", "other run", "not json", "nested", "wrong type", "list", "more keys", "huge", "before time"),
    *("odd text", "odd case", "odd status", "problem", "folder", "pipe"),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_file_itself_answers_where_the_manifest_does_not_fit(archive: Path, damage: str) -> None:
    wanted = list_runs(archive)
    manifest = archive / f"{IDS[0]}.json"
    manifest.chmod(0o644)
    values = json.loads(manifest.read_text())
    damaged = {
        "cut": manifest.read_text()[:-30],
        "other run": (archive / f"{IDS[1]}.json").read_text(),
        "not json": "\udc80?".encode("utf-8", "surrogatepass").decode("latin-1"),
        "wrong type": json.dumps(values | {"trials": "3"}),
        "list": "[]",
        "more keys": json.dumps(values | {"new": 1}),
        "nested": "[" * 100_000,
        "huge": json.dumps(values | {"created_utc_ns": 2**80}),
        "before time": json.dumps(values | {"created_utc_ns": -(2**70)}),
        "odd text": json.dumps(values | {"lab": "\udc80"}),
        "odd case": json.dumps(values | {"cases": ["\ud800"]}),
        "odd status": json.dumps(values | {"status": "unreadable"}),
        "problem": json.dumps(values | {"problem": "none"}),
    }
    manifest.unlink()
    if damage == "folder":
        manifest.mkdir()
    elif damage == "pipe":
        os.mkfifo(manifest)
    elif damage != "missing":
        manifest.write_text(damaged[damage])
    assert list_runs(archive) == wanted


def test_unreadable_file_keeps_its_place_and_is_not_passed_by(archive: Path) -> None:
    path = archive / f"{IDS[1]}.h5"
    os.truncate(path, path.stat().st_size - 1)
    infos = list_runs(archive)
    assert [info.run_id for info in infos] == [IDS[0], IDS[2], IDS[1]]
    assert infos[-1].status == "unreadable"
    assert str(path) in infos[-1].problem
    with pytest.raises(XdpreproError, match=f"latest: {path}: damaged: its SHA-256") as caught:
        find_run(archive, "latest")
    assert caught.value.status == STORAGE
    assert find_run(archive, "latest~1") == archive / f"{IDS[2]}.h5"


def test_unreadable_file_without_a_manifest_stands_where_its_id_says(tmp_path: Path) -> None:
    old = make_run(created_utc_ns=time.time_ns() - 10**10)
    new = make_run(run_id=make_run_id(), boots=1, trials=1, samples=2)
    older = seal(old, tmp_path, {}, FLAG_NAMES)
    path = seal(new, tmp_path, {}, FLAG_NAMES)
    path.with_suffix(".json").unlink()
    os.truncate(path, 1000)
    with pytest.raises(XdpreproError, match=f"latest: {path}: damaged"):
        find_run(tmp_path, "latest")
    assert find_run(tmp_path, "latest~1") == older


@pytest.mark.parametrize("name", [IDS[1], "odd"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "no hdf5"])
def test_what_is_no_sealed_file_is_listed_as_unreadable(archive: Path, kind: str, name: str) -> None:
    path = archive / f"{name}.h5"
    path.unlink(missing_ok=True)
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to("nowhere")
        case _:
            path.touch()
    assert [info.run_id for info in list_runs(archive) if info.status == "unreadable" and info.problem] == [name]
    if name == "odd":
        assert find_run(archive, "latest") == archive / f"{IDS[1]}.h5"
    else:
        with pytest.raises(XdpreproError, match=f"latest: {path}: "):
            find_run(archive, "latest")


def test_folder_that_may_not_be_listed_is_not_taken_for_empty(archive: Path) -> None:
    archive.chmod(0o700)
    with start_as_nobody(), pytest.raises(XdpreproError, match="Permission denied, while listing it") as caught:
        list_runs(archive)
    assert caught.value.status == STORAGE


def test_parts_and_journals_are_no_runs(archive: Path) -> None:
    (archive / ".x.h5.part").write_bytes(b"")
    (archive / ".x.h5").write_bytes(b"")
    (archive / "journal").mkdir()
    (archive / "journal/x.journal").write_bytes(b"")
    assert len(list_runs(archive)) == 3


def test_run_ids_are_version_7_and_sort_by_time() -> None:
    ids = [make_run_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert {run_id[14] for run_id in ids} == {"7"}
    assert {run_id[19] for run_id in ids} <= set("89ab")
    assert [run_id[:13] for run_id in ids] == sorted(run_id[:13] for run_id in ids)


def rewrite(path: Path, version: str) -> Path:
    """A copy of a sealed file as a later release would write it."""
    newer = path.with_name("newer.h5")
    newer.write_bytes(path.read_bytes())
    with h5py.File(newer, "r+") as file:
        file.attrs["schema_version"] = np.bytes_(version.encode())
        file.attrs["min_reader_version"] = np.bytes_(b"9.1")
        file.create_group("something_new")
        file.attrs["content_digest"] = np.bytes_(content_digest(file).encode())
    return newer


def test_newer_major_version_is_refused_by_name(archive: Path) -> None:
    newer = rewrite(archive / f"{IDS[0]}.h5", "2.0.0")
    with pytest.raises(XdpreproError, match=r"newer.h5: schema version 2\.0\.0, this xdprepro reads 1\.x") as caught:
        load_run(newer)
    assert caught.value.status == STORAGE
    assert "9.1" in caught.value.hint
    assert [info.run_id for info in list_runs(archive) if info.status == "unreadable"] == ["newer"]


def test_newer_minor_version_is_read(archive: Path) -> None:
    path = archive / f"{IDS[0]}.h5"
    assert load_run(rewrite(path, "1.7.0")) == load_run(path)


def test_copy_under_another_name_reads_the_same_and_is_not_the_latest(archive: Path) -> None:
    path = archive / f"{IDS[1]}.h5"
    copy = archive / "copy.h5"
    shutil.copy(path, copy)
    assert load_run(copy) == load_run(path)
    problem = f"{copy}: a copy of {path.name}, and not counted"
    assert replace(list_runs(archive)[-1], path=copy, problem=problem) in list_runs(archive)
    assert find_run(archive, "latest") == path
    assert find_run(archive, "latest~1") == archive / f"{IDS[2]}.h5"
    path.unlink()
    assert f"{copy}: renamed from {path.name}, and not counted" in [info.problem for info in list_runs(archive)]
    assert find_run(archive, "latest") == archive / f"{IDS[2]}.h5"

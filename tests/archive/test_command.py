# SPDX-License-Identifier: GPL-2.0-or-later
"""xdprepro archive on the command line: whatever the folder holds or is, an answer and no traceback."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from made import FLAG_NAMES, make_run

from xdprepro.archive import seal
from xdprepro.errors import STORAGE, USAGE


def run_archive(*words: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "xdprepro", "archive", *words]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, cwd=cwd, env=env)


def test_list_survives_whatever_lies_in_the_folder(tmp_path: Path) -> None:
    path = seal(make_run(boots=1, trials=1), tmp_path, {}, FLAG_NAMES)
    manifest = path.with_suffix(".json")
    manifest.chmod(0o644)
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"created_utc_ns": 2**80, "lab": "\ud800"}))
    os.mkfifo(tmp_path / "pipe.h5")
    (tmp_path / os.fsdecode(b"\xff.h5")).write_bytes(b"")
    table = run_archive("ls", "--archive", str(tmp_path))
    listed = run_archive("ls", "--json", "--archive", str(tmp_path))
    assert (table.returncode, table.stderr, listed.returncode, listed.stderr) == (0, "", 0, "")
    runs = {run["run_id"]: run for run in json.loads(listed.stdout)}
    assert set(runs) == {path.stem, "pipe", "\\udcff"}
    assert (runs[path.stem]["lab"], runs[path.stem]["status"]) == ("veth", "complete")
    assert "not a regular file" in runs["pipe"]["problem"]


def test_list_shows_the_ports_of_guests(tmp_path: Path) -> None:
    run = make_run(boots=2, trials=1, lab="guests", lab_kind="vm")
    boots = [replace(boot, port=port) for boot, port in zip(run.boots, ("igb", "veth"), strict=True)]
    seal(replace(run, boots=tuple(boots)), tmp_path, {}, FLAG_NAMES)
    assert "guests (vm: igb, veth)" in run_archive("ls", "--archive", str(tmp_path)).stdout
    [listed] = json.loads(run_archive("ls", "--json", "--archive", str(tmp_path)).stdout)
    assert (listed["lab_kind"], listed["ports"]) == ("vm", ["igb", "veth"])


def test_damaged_newest_run_is_not_passed_by(tmp_path: Path) -> None:
    path = seal(make_run(boots=1, trials=1), tmp_path, {}, FLAG_NAMES)
    os.truncate(path, path.stat().st_size - 1)
    for command in ("verify", "show"):
        done = run_archive(command, "latest", "--archive", str(tmp_path))
        assert (done.returncode, done.stdout) == (STORAGE, "")
        assert done.stderr.startswith(f"error: latest: {path}: damaged")


@pytest.mark.parametrize("words", [("ls",), ("ls", "--json"), ("show",), ("verify", "latest"), ("recover",)])
def test_named_folder_that_is_not_there_is_a_usage_error(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run_archive(*words, "--archive", str(tmp_path / "missing"))
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert f"error: {tmp_path / 'missing'}: there is no such folder" in done.stderr


@pytest.mark.parametrize("command", ["ls", "show", "recover"])
def test_empty_folder_name_is_not_the_current_folder(tmp_path: Path, command: str) -> None:
    seal(make_run(boots=1, trials=1), tmp_path, {}, FLAG_NAMES)
    done = run_archive(command, "--archive", "", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert "error: --archive: the name of the folder is empty" in done.stderr

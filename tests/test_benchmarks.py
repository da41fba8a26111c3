# SPDX-License-Identifier: GPL-2.0-or-later
"""The benchmark against other tools runs, counts right and leaves the lab as it was; figures are not tested."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

from xdprepro import provision
from xdprepro.lab import Lab

pytestmark = pytest.mark.netns


@pytest.fixture
def lab(tmp_path: Path, root_user: None, agent: Path) -> Iterator[Lab]:
    path = tmp_path / f"b{os.getpid()}"
    shutil.copytree(ROOT / "inventory/veth", path)
    made = provision.load_lab(path)
    provision.up(made)
    yield made
    provision.down(made)


def run_peers(lab: Lab, *args: str) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "benchmarks/peers.py", "--lab", str(lab.path), "--rounds", "2", "--measure", "0.1", *args]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_ours_and_bare_are_measured_in_every_operation(lab: Lab) -> None:
    done = run_peers(lab, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    wanted = {(op, name) for op in ("drop", "tx", "redirect-map") for name in ("ours", "bare")}
    assert {(row["operation"], row["contestant"]) for row in rows} == wanted
    for row in rows:
        assert len(row["pps"]) == 2
        assert min(row["pps"]) > 0
        assert row["tx_dropped_pct"] == 0
        assert (row["ratio"] is None) == (row["contestant"] == "ours")
    links = subprocess.run(["ip", "-n", str(lab.dut.netns), "-j", "link"], capture_output=True, text=True, check=True)
    assert {link["ifname"] for link in json.loads(links.stdout)} == {"lo", "dut0"}


def test_a_peer_that_attaches_nothing_is_named_with_what_it_said(lab: Lab) -> None:
    done = run_peers(lab, "--op", "drop", "--xdp-bench", "sh -c 'echo no such mode >&2'")
    assert done.returncode == 1
    assert "error: " in done.stderr
    assert "no such mode" in done.stderr
    assert "Traceback" not in done.stderr


def test_sampling_is_measured_at_every_rate(lab: Lab) -> None:
    argv = [
        sys.executable,
        "benchmarks/sampling.py",
        "--lab",
        str(lab.path),
        "--rounds",
        "2",
        "--measure",
        "0.3",
        "--json",
    ]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = {row["hz"]: row for row in json.loads(done.stdout)["rows"]}
    assert rows.keys() == {0, 10, 200}
    assert rows[200]["samples"] > rows[10]["samples"] > rows[0]["samples"]
    for row in rows.values():
        assert min(row["trials"]) > 0
        assert (row["ratio"] is None) == (row["hz"] == 0)

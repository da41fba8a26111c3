# SPDX-License-Identifier: GPL-2.0-or-later
"""What a kernel cannot do with a port is told before it is measured."""

import json
import subprocess
import sys

import pytest
from conftest import ROOT

from xdprepro.kernel import Kernel

pytestmark = pytest.mark.vm


def ask(*words: str) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "xdprepro", *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=180)


def test_doctor_names_a_driver_without_native_xdp_and_one_without_zero_copy(kernel: Kernel) -> None:
    """xdp-tutorial #465, #128."""
    ports = ["--port", "e1000e", "--port", "igb", "--kernel", "deb:6.1"]
    done = ask("doctor", "vm", "--case", "xsk.rxdrop", "--set", "bind_mode=zero-copy", "--json", *ports)
    assert done.returncode == 1, done.stderr
    wrong = {
        (row["place"].split()[-1], row["id"]): row for row in json.loads(done.stdout) if row["severity"] == "error"
    }
    assert set(wrong) == {("e1000e", "xdp-native"), ("e1000e", "xsk-zero-copy"), ("igb", "xsk-zero-copy")}
    assert "Operation not supported" in wrong["e1000e", "xdp-native"]["got"]
    assert "attach_mode" in wrong["e1000e", "xdp-native"]["fix"]
    assert "bind_mode" in wrong["igb", "xsk-zero-copy"]["fix"]


def test_suite_show_says_what_a_kernel_will_skip_on_a_port(kernel: Kernel) -> None:
    shown = ask("suite", "show", "xdp-bench", "--lab", "vm", "--kernel", "deb:6.1", "--port", "e1000e", "--json")
    assert shown.returncode == 0, shown.stderr
    said = json.loads(shown.stdout)
    [place] = said["places"]
    native = {case["id"] for case in said["case"] if case["attach_mode"] == "native"}
    plain = {case["id"] for case in said["case"] if case["attach_mode"] == "skb" and case["access"] != "load-bytes"}
    assert native <= set(place["skipped"])
    assert not plain & set(place["skipped"])

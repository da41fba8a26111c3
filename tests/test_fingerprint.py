# SPDX-License-Identifier: GPL-2.0-or-later
"""The fingerprint, from this machine's own /proc and /sys and from folders that look like other machines'."""

import json
from pathlib import Path

import pytest

from xdprepro import fingerprint

CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) Gold 5120 CPU @ 2.20GHz
stepping\t: 4
microcode\t: 0x2007006
cpu MHz\t\t: {mhz}
flags\t\t: fpu vme
bogomips\t: {mhz}

processor\t: 1
model name\t: Intel(R) Xeon(R) Gold 5120 CPU @ 2.20GHz
"""


def make_machine(
    folder: Path, *, mhz: str = "2200.0", serial: str = "S1", memory_kb: int = 16000000
) -> tuple[Path, Path]:
    proc, sys = folder / "proc", folder / "sys"
    (sys / "class/dmi/id").mkdir(parents=True)
    (sys / "devices/system/cpu").mkdir(parents=True)
    proc.mkdir()
    (proc / "cpuinfo").write_text(CPUINFO.format(mhz=mhz))
    (proc / "meminfo").write_text(f"MemTotal:       {memory_kb} kB\n")
    (sys / "devices/system/cpu/present").write_text("0-1\n")
    if serial:
        (sys / "class/dmi/id/board_serial").write_text(serial + "\n")
    return proc, sys


def host_of(folder: Path, **changes: object) -> tuple[dict[str, object], dict[str, str]]:
    absent: dict[str, str] = {}
    proc, sys = make_machine(folder, **changes)  # type: ignore[arg-type]
    return fingerprint.read_host(absent, proc, sys), absent


def test_host_key_ignores_what_varies_between_reboots(tmp_path: Path) -> None:
    first, _ = host_of(tmp_path / "a", mhz="2200.0", memory_kb=16000000)
    second, _ = host_of(tmp_path / "b", mhz="2199.7", memory_kb=15999000)
    assert first["host_key"] == second["host_key"]


def test_host_key_tells_two_boards_apart(tmp_path: Path) -> None:
    first, _ = host_of(tmp_path / "a", serial="S1")
    second, _ = host_of(tmp_path / "b", serial="S2")
    assert first["host_key"] != second["host_key"]


def test_serial_number_is_not_in_the_fingerprint(tmp_path: Path) -> None:
    host, _ = host_of(tmp_path, serial="SECRET-4711")
    assert "SECRET-4711" not in json.dumps(host)


def test_machine_without_dmi_says_so(tmp_path: Path) -> None:
    host, absent = host_of(tmp_path, serial="")
    assert host["host_key"]
    assert "/etc/machine-id" in absent["host.dmi"]


def test_without_dmi_the_machine_id_is_the_identity_and_memory_is_not(tmp_path: Path) -> None:
    keys = []
    for name, machine_id, memory_kb in (("a", "m1", 24000000), ("b", "m1", 23900000), ("c", "m2", 24000000)):
        proc, sys = make_machine(tmp_path / name, serial="", memory_kb=memory_kb)
        (tmp_path / name / "machine-id").write_text(machine_id + "\n")
        keys.append(fingerprint.read_host({}, proc, sys, tmp_path / name)["host_key"])
    assert keys[0] == keys[1]
    assert keys[0] != keys[2]


def test_cpu_fields_are_read(tmp_path: Path) -> None:
    host, _ = host_of(tmp_path)
    assert host["cpu_model"] == "Intel(R) Xeon(R) Gold 5120 CPU @ 2.20GHz"
    assert host["cpu_id"] == "GenuineIntel/6/85/4"
    assert host["microcode"] == "0x2007006"
    assert host["cpus"] == 2
    assert host["memory_bytes"] == 16000000 * 1024


def test_absent_cpu_states_are_named_not_empty(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/online").write_text("0-3\n")
    (tmp_path / "cpu/isolated").write_text("\n")
    absent: dict[str, str] = {}
    state = fingerprint.read_cpu_state(absent, tmp_path)
    assert state == {"online": "0-3", "isolated": ""}
    assert set(absent) == {"cpu.thread_siblings", "cpu.governor", "cpu.turbo", "cpu.smt", "cpu.clocksource"}


@pytest.mark.parametrize(
    ("path", "value", "turbo"),
    [
        ("cpu/intel_pstate/no_turbo", "0", "on"),
        ("cpu/intel_pstate/no_turbo", "1", "off"),
        ("cpu/cpufreq/boost", "1", "on"),
        ("cpu/cpufreq/boost", "0", "off"),
    ],
)
def test_turbo_is_read_from_either_driver(tmp_path: Path, path: str, value: str, turbo: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(value)
    assert fingerprint.read_cpu_state({}, tmp_path)["turbo"] == turbo


def test_different_governors_are_all_shown(tmp_path: Path) -> None:
    for number, governor in enumerate(("powersave", "performance", "powersave")):
        policy = tmp_path / f"cpu/cpufreq/policy{number}"
        policy.mkdir(parents=True)
        (policy / "scaling_governor").write_text(governor)
    assert fingerprint.read_cpu_state({}, tmp_path)["governor"] == "performance,powersave"


def test_this_machine_has_a_whole_fingerprint() -> None:
    root = Path(fingerprint.__file__).parent.parent
    result, documents = fingerprint.read_fingerprint(agent={}, dut={}, tester={}, lab={"name": "x"}, root=root)
    json.dumps(result)
    assert result["kernel"]["release"] == Path("/proc/sys/kernel/osrelease").read_text().strip()
    assert result["kernel"]["cmdline"] == Path("/proc/cmdline").read_text().strip()
    assert (
        ("kernel_config" in documents)
        == ("config_sha256" in result["kernel"])
        == ("kernel.config" not in result["absent"])
    )
    assert result["tools"]["numpy"]
    assert all(reason for reason in result["absent"].values())


def test_checkout_without_git_is_named_absent(tmp_path: Path) -> None:
    absent: dict[str, str] = {}
    assert fingerprint.read_checkout(tmp_path, absent) == {}
    assert "no git checkout" in absent["checkout"]


def test_port_changes_name_key_and_values() -> None:
    before = {"driver": "veth", "mtu": 1500, "features": {"rx-gro": False}}
    now = {"driver": "veth", "mtu": 9000, "features": {"rx-gro": True}}
    assert fingerprint.find_port_changes(before, now) == [
        "mtu: 1500 -> 9000",
        "features: {'rx-gro': False} -> {'rx-gro': True}",
    ]
    assert fingerprint.find_port_changes(before, before) == []

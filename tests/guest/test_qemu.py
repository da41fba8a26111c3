# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU as it is found and called, and the probe of the machine's own processor."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from guest.tiny_kernel import HANG, make_kernel
from xdprepro import guest
from xdprepro.errors import UNAVAILABLE, XdpreproError
from xdprepro.guest import PORTS, Machine, check_qemu, find_accel, have_model
from xdprepro.guest.qemu import Files, check_port, make_argv
from xdprepro.kernel import Kernel
from xdprepro.lab import GUEST_PORTS

MACS = {"dut": "02:00:00:00:00:01", "tester": "02:00:00:00:00:02"}
MARKERS = {"arm": "0x401000", "table": "0x500000"}
FILES = Files(Path("/k"), Path("/i"), Path("/a, b/console"), Path("/a, b/results"), Path("/a, b/counts"))


def argv_of(machine: Machine) -> list[str]:
    return make_argv(machine, FILES, MACS, MARKERS)


def after(argv: list[str], option: str) -> list[str]:
    return [value for name, value in zip(argv, argv[1:], strict=False) if name == option]


def test_every_port_of_a_lab_is_known() -> None:
    assert set(PORTS) == set(GUEST_PORTS)


@pytest.mark.usefixtures("qemu")
@pytest.mark.parametrize("name", PORTS)
def test_model_of_every_port_is_there(name: str) -> None:
    check_port(name)


@pytest.mark.usefixtures("qemu")
def test_model_that_is_not_there_is_known() -> None:
    assert have_model("igb")
    assert not have_model("no-such-model")


@pytest.mark.usefixtures("qemu")
def test_port_without_its_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PORTS, "igb", replace(PORTS["igb"], model="igb-of-tomorrow"))
    with pytest.raises(XdpreproError, match="has no model igb-of-tomorrow") as raised:
        check_port("igb")
    assert raised.value.status == UNAVAILABLE


def test_count_lets_nothing_happen_beside_the_guest() -> None:
    argv = argv_of(Machine("virtio-net"))
    assert after(argv, "-icount") == ["shift=0,sleep=off"]
    assert after(argv, "-smp") == ["1"]
    assert after(argv, "-seed") == ["1"]
    assert after(argv, "-rtc") == ["base=2026-01-01,clock=vm"]
    devices = [device for device in after(argv, "-device") if device.startswith("virtio-")]
    assert len(devices) == 3
    assert all("ioeventfd=off" in device for device in devices)


def test_commas_in_paths_part_no_options() -> None:
    argv = argv_of(Machine("veth"))
    assert "file,id=results,path=/a,, b/results" in after(argv, "-chardev")
    (plugin,) = after(argv, "-plugin")
    assert plugin.endswith(",out=/a,, b/counts,arm=0x401000,table=0x500000")


def test_ends_of_a_cable_are_on_one_hub() -> None:
    argv = argv_of(Machine("igb"))
    assert after(argv, "-netdev") == ["hubport,id=dut,hubid=0", "hubport,id=tester,hubid=0"]
    ports = [device for device in after(argv, "-device") if device.startswith("igb,")]
    assert ports == [f"igb,bus={end}-slot,netdev={end},mac={mac}" for end, mac in MACS.items()]


def test_veth_has_no_devices() -> None:
    assert after(argv_of(Machine("veth")), "-netdev") == []


def test_words_of_the_machine_come_last() -> None:
    (line,) = after(argv_of(Machine("veth", cmdline="mitigations=off")), "-append")
    assert line == "console=ttyS0 nokaslr panic=-1 oops=panic nolapic_timer cryptomgr.notests mitigations=off"


@pytest.mark.parametrize("accel", ["tcg", "kvm"])
def test_rates_are_not_counted(accel: str) -> None:
    argv = argv_of(Machine("veth", accel=accel))
    assert after(argv, "-accel") == [accel]
    assert "-icount" not in argv
    assert "-plugin" not in argv


def test_memory_pass_is_asked_of_the_plugin() -> None:
    (plugin,) = after(argv_of(Machine("veth", memory_pass=True)), "-plugin")
    assert plugin.endswith(",memory=on")


@pytest.fixture(autouse=True)
def ask_qemu_anew() -> Iterator[None]:
    """What a machine of one test says is not for the next."""
    yield
    check_qemu.cache_clear()


def use_program(monkeypatch: pytest.MonkeyPatch, directory: Path, version: str | None) -> None:
    """A machine whose QEMU says this of itself, or which has none."""
    directory.mkdir()
    if version:
        program = directory / "qemu-system-x86_64"
        program.write_text(f"#!/bin/sh\necho 'QEMU emulator version {version}'\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory) if not version else f"{directory}:/bin:/usr/bin")
    check_qemu.cache_clear()


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (None, "qemu-system-x86_64: not found"),
        ("7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)", "QEMU is 7.2, the emulated bench needs 9.2"),
    ],
)
def test_qemu_that_is_missing_or_old_is_told_with_what_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None, message: str
) -> None:
    use_program(monkeypatch, tmp_path / "bin", version)
    with pytest.raises(XdpreproError) as raised:
        check_qemu()
    assert raised.value.message == message
    assert raised.value.hint.startswith("install QEMU 9.2 to 10.0: 'make setup' does on Debian")
    assert raised.value.status == UNAVAILABLE


def test_qemu_that_is_too_new_to_count_still_shows_rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_program(monkeypatch, tmp_path / "bin", "10.1.0 (Debian 1:10.1.0+ds-1)")
    assert check_qemu() == "10.1.0 (Debian 1:10.1.0+ds-1)"
    with pytest.raises(XdpreproError) as raised:
        check_qemu(counting=True)
    assert raised.value.message == "QEMU is 10.1, instructions are counted with 9.2 to 10.0"
    assert raised.value.hint.startswith("install QEMU 9.2 to 10.0")
    assert raised.value.status == UNAVAILABLE


@pytest.mark.parametrize("version", ["9.2.0", "10.0.2"])
def test_qemu_that_can_count_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    use_program(monkeypatch, tmp_path / "bin", version)
    assert check_qemu(counting=True) == version


@pytest.mark.vm
@pytest.mark.usefixtures("qemu")
def test_kvm_is_believed_when_a_guest_booted(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its device opens and guests hang: this ends, with a reason, and is not asked again."""
    monkeypatch.setenv("XDPREPRO_CACHE", str(tmp_path))
    found = find_accel(kernel, deadline_s=5)
    assert (found.name == "kvm") == (found.reason == "")
    assert found.name in ("kvm", "tcg")
    cached = tmp_path / "accel.json"
    ((key, value),) = json.loads(cached.read_text()).items()
    cached.write_text(json.dumps({key: value | {"reason": "as it was found"}}))
    assert find_accel(kernel, deadline_s=5).reason == "as it was found"


@pytest.mark.vm
@pytest.mark.usefixtures("qemu")
def test_guest_that_hangs_under_kvm_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another boot of this machine, what was found says nothing."""
    monkeypatch.setenv("XDPREPRO_CACHE", str(tmp_path))
    (tmp_path / "accel.json").write_text(json.dumps({"another boot": {"name": "kvm", "reason": ""}}))
    found = guest.find_accel(make_kernel(tmp_path / "image", HANG), cpu="qemu64", deadline_s=1)
    assert found.name == "tcg"
    assert found.reason

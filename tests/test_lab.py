# SPDX-License-Identifier: GPL-2.0-or-later
"""Reading a lab out of an inventory, and saying what is wrong with one."""

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.xdprepro.lab.plugins.module_utils import lab_links
from conftest import ROOT

from xdprepro.errors import USAGE, XdpreproError
from xdprepro.lab import TAKEN_IFNAMES, Host, Lab, parse_inventory

PATH = Path("/labs/veth")


def inventory() -> dict[str, Any]:
    """What ansible-inventory --list says about a veth lab."""
    common = {
        "ansible_connection": "local",
        "lab_name": "{{ inventory_dir | basename }}",
        "lab_kind": "veth",
        "lab_queues": 2,
        "lab_mtu": 1500,
    }
    dut = {"lab_role": "dut", "lab_ifname": "dut0", "lab_mac": "02:00:00:00:00:0A"}
    tester = {"lab_role": "tester", "lab_ifname": "tester0", "lab_mac": "02:00:00:00:00:0b"}
    return {"_meta": {"hostvars": {"dut": common | dut, "tester": common | tester}}, "all": {"children": ["ungrouped"]}}


def refuse(data: dict[str, Any], name: str = "veth") -> str:
    with pytest.raises(XdpreproError) as caught:
        parse_inventory(data, name, path=PATH)
    assert caught.value.status == USAGE
    return caught.value.message


def test_a_veth_lab_is_read() -> None:
    assert parse_inventory(inventory(), "veth", path=PATH) == Lab(
        name="veth",
        kind="veth",
        queues=2,
        mtu=1500,
        dut=Host("dut", "dut", "dut0", "02:00:00:00:00:0a", "xdprepro-veth-dut", None),
        tester=Host("tester", "tester", "tester0", "02:00:00:00:00:0b", "xdprepro-veth-tester", None),
        path=PATH,
    )


def test_as_many_queues_as_the_programs_count_are_allowed() -> None:
    data = inventory()
    for keys in data["_meta"]["hostvars"].values():
        keys["lab_queues"] = 64
    assert parse_inventory(data, "veth", path=PATH).queues == 64
    assert "#define RECORD_RXQS 64\n" in (ROOT / "bpf/record.h").read_text()


def test_the_names_of_links_that_are_taken_are_those_of_the_collection() -> None:
    assert set(TAKEN_IFNAMES) == lab_links.KERNEL_LINKS | lab_links.NO_LINKS


@pytest.mark.parametrize(
    ("path", "typed"),
    [(ROOT / "inventory/veth", "veth"), (Path("/labs/veth"), "/labs/veth"), (Path("/my labs/veth"), "'/my labs/veth'")],
)
def test_a_lab_is_called_by_what_a_user_can_type(path: Path, typed: str) -> None:
    assert parse_inventory(inventory(), "veth", path=path).spec == typed


def test_hosts_are_found_by_role_not_by_name() -> None:
    data = inventory()
    hostvars = data["_meta"]["hostvars"]
    data["_meta"]["hostvars"] = {"a": hostvars["tester"], "b": hostvars["dut"]}
    lab = parse_inventory(data, "veth", path=PATH)
    assert (lab.dut.name, lab.tester.name) == ("b", "a")


def test_two_labs_have_namespaces_of_their_own() -> None:
    labs = [parse_inventory(inventory(), name, path=PATH) for name in ("veth", "other")]
    assert len({host.netns for lab in labs for host in (lab.dut, lab.tester)}) == 4


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("lab_kind", "metal", "veth, vm"),
        ("lab_queues", 0, "1 to 64, as the XDP programs count 64 receive queues"),
        ("lab_queues", 65, "1 to 64"),
        ("lab_queues", True, "1 to 64"),
        ("lab_queues", "2", "1 to 64"),
        ("lab_mtu", 67, "68 to 65535"),
        ("lab_mtu", 65536, "68 to 65535"),
        ("lab_mtu", "{{ 1500 }}", "68 to 65535"),
        ("lab_role", "sink", "dut, tester"),
        ("lab_ifname", "a-name-of-16-chr", "1 to 15 bytes"),
        ("lab_ifname", "eth/0", "without '/'"),
        ("lab_ifname", "", "1 to 15 bytes"),
        ("lab_ifname", "..", "1 to 15 bytes"),
        ("lab_ifname", "lo", "none of all, default, lo, "),
        ("lab_ifname", "all", "none of all"),
        ("lab_ifname", "default", "none of all"),
        ("lab_ifname", "sit0", "none of all"),
        ("lab_ifname", "dut%d", "without '/', ':', '%', '{' and spaces"),
        ("lab_ifname", "{{x}}", "without '/', ':', '%', '{' and spaces"),
        ("lab_mac", "01:00:5e:00:00:01", "unicast"),
        ("lab_mac", "00:00:00:00:00:00", "unicast"),
        ("lab_mac", 20000000000, "in quotes"),
        ("lab_name", "another", "veth"),
    ],
)
def test_a_wrong_value_is_named_with_its_host_and_what_is_allowed(key: str, value: object, allowed: str) -> None:
    data = inventory()
    data["_meta"]["hostvars"]["dut"][key] = value
    message = refuse(data)
    assert message.startswith(f"lab veth: dut: {key} is {value!r}")
    assert allowed in message


def test_an_unknown_key_is_named() -> None:
    data = inventory()
    data["_meta"]["hostvars"]["tester"]["lab_mtuu"] = 1500
    assert refuse(data).startswith("lab veth: tester: unknown key lab_mtuu")


def test_a_missing_key_is_named() -> None:
    data = inventory()
    del data["_meta"]["hostvars"]["tester"]["lab_mac"]
    assert refuse(data).startswith("lab veth: tester: lab_mac is missing")


def test_an_unknown_key_is_named_before_the_one_it_was_meant_to_be() -> None:
    data = inventory()
    data["_meta"]["hostvars"]["dut"]["lab_mack"] = data["_meta"]["hostvars"]["dut"].pop("lab_mac")
    assert "unknown key lab_mack" in refuse(data)


def test_hosts_must_agree_on_what_is_common() -> None:
    data = inventory()
    data["_meta"]["hostvars"]["tester"]["lab_mtu"] = 9000
    assert refuse(data).startswith("lab veth: lab_mtu differs: {'dut': 1500, 'tester': 9000}")


def test_a_lab_has_one_host_of_each_role() -> None:
    data = inventory()
    data["_meta"]["hostvars"]["tester"]["lab_role"] = "dut"
    assert refuse(data).startswith("lab veth: hosts with lab_role dut: dut, tester")
    del data["_meta"]["hostvars"]["tester"]
    assert refuse(data).startswith("lab veth: hosts with lab_role tester: none")
    assert refuse({"_meta": {"hostvars": {}}}).startswith("lab veth: hosts with lab_role dut: none")


def test_the_two_ends_have_two_addresses() -> None:
    data = inventory()
    data["_meta"]["hostvars"]["tester"]["lab_mac"] = "02:00:00:00:00:0a"
    assert refuse(data).startswith("lab veth: tester: lab_mac is 02:00:00:00:00:0a")


@pytest.mark.parametrize("name", ["", "my lab", ".hidden", "-x", "a/b", "x" * 65])
def test_a_name_that_cannot_be_part_of_a_namespace_is_refused(name: str) -> None:
    assert refuse(inventory(), name).startswith(f"{name!r} cannot name a lab")


def guests() -> dict[str, Any]:
    """What ansible-inventory --list says about a lab of guests."""
    data = inventory()
    for keys in data["_meta"]["hostvars"].values():
        keys |= {"lab_kind": "vm", "lab_queues": 1, "lab_ports": ["veth", "igb"], "lab_cpu": "max"}
        keys["lab_memory_mib"] = 1024
    return data


def test_a_lab_of_guests_is_read() -> None:
    lab = parse_inventory(guests(), "vm", path=PATH)
    assert (lab.kind, lab.ports, lab.cpu, lab.memory_mib, lab.boots_kernels) == (
        "vm",
        ("veth", "igb"),
        "max",
        1024,
        True,
    )
    assert (lab.dut.netns, lab.tester.netns) == (None, None)
    assert not parse_inventory(inventory(), "veth", path=PATH).boots_kernels


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("lab_ports", [], "a list of veth, virtio-net, igb"),
        ("lab_ports", "veth", "a list of veth"),
        ("lab_ports", ["e1000"], "a list of veth"),
        ("lab_ports", ["veth", "veth"], "a list of veth"),
        ("lab_cpu", "", "a CPU model of QEMU"),
        ("lab_cpu", "max -device x", "a CPU model of QEMU"),
        ("lab_memory_mib", 64, "256 to 65536"),
    ],
)
def test_a_wrong_value_of_a_guest_is_named(key: str, value: object, allowed: str) -> None:
    data = guests()
    for keys in data["_meta"]["hostvars"].values():
        keys[key] = value
    message = refuse(data, "vm")
    assert message.startswith(f"lab vm: dut: {key} is {value!r}")
    assert allowed in message


def test_a_key_of_guests_is_unknown_elsewhere_and_missed_there() -> None:
    data = inventory()
    data["_meta"]["hostvars"]["dut"]["lab_cpu"] = "max"
    assert refuse(data).startswith("lab veth: dut: unknown key lab_cpu")
    data = guests()
    del data["_meta"]["hostvars"]["dut"]["lab_ports"]
    assert refuse(data, "vm").startswith("lab vm: dut: lab_ports is missing")

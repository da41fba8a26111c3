# SPDX-License-Identifier: GPL-2.0-or-later
"""A lab: what the inventory says about the device under test and its tester."""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdprepro.errors import USAGE, XdpreproError

LABS = Path(__file__).parent.parent / "inventory"  # the labs that have a name

KINDS = ("veth", "vm")
# What a guest can have for a cable's two ends.
GUEST_PORTS = ("veth", "virtio-net", "igb", "vmxnet3", "e1000e", "virtio-net-dma")
ROLES = ("dut", "tester")
# Ansible templates this one where it uses it; ansible-inventory hands it out as it is written.
NAME_TEMPLATE = "{{ inventory_dir | basename }}"


@dataclass(frozen=True)
class Host:
    name: str
    role: str
    ifname: str
    mac: str
    netns: str | None  # the namespace of this machine that plays the host
    address: str | None  # where ssh finds the host; None: on this machine


@dataclass(frozen=True)
class Lab:
    name: str
    kind: str
    queues: int
    mtu: int
    dut: Host
    tester: Host
    path: Path  # the inventory it was read from
    ports: tuple[str, ...] = ()  # of GUEST_PORTS; empty where the ports are there already
    cpu: str = ""  # the CPU model of a guest
    memory_mib: int = 0  # of a guest

    @property
    def boots_kernels(self) -> bool:
        """Whether a run names the kernels it measures; else it measures the one that runs."""
        return bool(self.ports)

    @property
    def spec(self) -> str:
        """What a user types for this lab in a shell."""
        return self.name if self.path.parent == LABS else shlex.quote(str(self.path))


def parse_inventory(data: Mapping[str, Any], name: str, *, path: Path) -> Lab:
    """The lab that `ansible-inventory --list` describes; only keys named lab_* count."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        raise _wrong(
            f"{name!r} cannot name a lab", "1 to 64 letters, digits, '_', '.' and '-', beginning with a letter or digit"
        )
    hostvars = data.get("_meta", {}).get("hostvars", {})
    parsed = {host: _parse_host(name, host, keys) for host, keys in sorted(hostvars.items())}
    common = _common(name, parsed)
    dut, tester = (_find_host(name, parsed, role) for role in ROLES)
    if dut.mac == tester.mac:
        raise _wrong(f"lab {name}: {tester.name}: lab_mac is {tester.mac}", f"another address than that of {dut.name}")
    return Lab(name=name, **common, dut=dut, tester=tester, path=path)


def _parse_host(lab: str, host: str, hostvars: Mapping[str, Any]) -> dict[str, Any]:
    keys = {key: value for key, value in hostvars.items() if key.startswith("lab_")}
    known = KEYS | (GUEST_KEYS if keys.get("lab_kind") == "vm" else {})
    for key in sorted(keys.keys() - known.keys()):
        raise _wrong(f"lab {lab}: {host}: unknown key {key}", ", ".join(known))
    for key in sorted(known.keys() - keys.keys()):
        raise _wrong(f"lab {lab}: {host}: {key} is missing", known[key][1])
    for key, value in keys.items():
        right, allowed = known[key]
        if not right(value):
            raise _wrong(f"lab {lab}: {host}: {key} is {value!r}", allowed)
    if keys["lab_name"] not in (NAME_TEMPLATE, lab):
        raise _wrong(
            f"lab {lab}: {host}: lab_name is {keys['lab_name']!r}", f"{lab} (the name of the inventory directory)"
        )
    return keys


def _common(lab: str, parsed: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What must be the same on all hosts."""
    common: dict[str, Any] = {}
    guest = any(keys["lab_kind"] == "vm" for keys in parsed.values())
    for field in ("kind", "queues", "mtu", *(("ports", "cpu", "memory_mib") if guest else ())):
        values = {host: keys.get(f"lab_{field}") for host, keys in parsed.items()}
        first = next(iter(values.values()), None)
        if any(value != first for value in values.values()):
            raise _wrong(f"lab {lab}: lab_{field} differs: {values}", "one value for all hosts (group_vars/all.yml)")
        common[field] = tuple(first) if isinstance(first, list) else first
    return common


def _find_host(lab: str, parsed: Mapping[str, Mapping[str, Any]], role: str) -> Host:
    names = [host for host, keys in parsed.items() if keys["lab_role"] == role]
    if len(names) != 1:
        found = ", ".join(names) or "none"
        raise _wrong(f"lab {lab}: hosts with lab_role {role}: {found}", "exactly one")
    keys = parsed[names[0]]
    # playbooks/vars/veth_pair.yml derives the same name. In a guest the namespaces are the guest's own.
    netns = None if keys["lab_kind"] == "vm" else f"xdprepro-{lab}-{role}"
    return Host(names[0], role, keys["lab_ifname"], keys["lab_mac"].lower(), netns=netns, address=None)


def _wrong(fact: str, allowed: str) -> XdpreproError:
    return XdpreproError(f"{fact}; allowed: {allowed}", status=USAGE)


def _is_int(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_ifname(value: Any) -> bool:
    """The rules of dev_valid_name() in the kernel, without names that something else has, and without templates."""
    return (
        isinstance(value, str)
        and 0 < len(value.encode()) <= 15
        and value not in (".", "..", *TAKEN_IFNAMES)
        and not re.search(r"[/:\s%{]", value)
    )


def _is_mac(value: Any) -> bool:
    """A unicast address that is not all zeros: what dev_set_mac_address() takes."""
    if not isinstance(value, str) or not re.fullmatch(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}", value):
        return False
    octets = [int(octet, 16) for octet in value.split(":")]
    return any(octets) and octets[0] & 1 == 0


# The directories of /proc/sys/net/*/conf that are no links, and the links that the kernel puts into every namespace:
# plugins/module_utils/lab_links.py has the same.
TAKEN_IFNAMES = (
    *("all", "default"),
    *("lo", "tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "sit0", "ip6tnl0", "ip6gre0"),
)

# key: (test, what is allowed)
KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "lab_name": (lambda value: isinstance(value, str), NAME_TEMPLATE),
    "lab_kind": (lambda value: value in KINDS, ", ".join(KINDS)),
    "lab_queues": (_is_int(1, 64), "a whole number from 1 to 64, as the XDP programs count 64 receive queues"),
    "lab_mtu": (_is_int(68, 65535), "a whole number from 68 to 65535"),
    "lab_role": (lambda value: value in ROLES, ", ".join(ROLES)),
    "lab_ifname": (
        _is_ifname,
        "1 to 15 bytes without '/', ':', '%', '{' and spaces, none of " + ", ".join(TAKEN_IFNAMES),
    ),
    "lab_mac": (_is_mac, "a unicast MAC address such as 02:00:00:00:00:01, in quotes"),
}
# What else a lab of guests says.
GUEST_KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "lab_ports": (
        lambda value: (
            isinstance(value, list)
            and 0 < len(value) == len(set(map(str, value)))
            and all(p in GUEST_PORTS for p in value)
        ),
        "a list of " + ", ".join(GUEST_PORTS),
    ),
    "lab_cpu": (
        lambda value: isinstance(value, str) and bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.,+=-]*", value)),
        "a CPU model of QEMU, with its flags if need be: max, or Skylake-Client-v1,-pcid",
    ),
    "lab_memory_mib": (_is_int(256, 65536), "a whole number from 256 to 65536"),
}

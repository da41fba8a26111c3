# SPDX-License-Identifier: GPL-2.0-or-later
"""Network namespaces and veth pairs of a lab: read through netlink, made, marked as ours, and taken away."""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from pyroute2 import IPRoute, NetlinkError, netns
    from pyroute2.ethtool.ioctl import IoctlEthtool, NotSupportedError

    PYROUTE2_ERROR = None
except ImportError:
    PYROUTE2_ERROR = traceback.format_exc()

NETNS_DIR = Path("/run/netns")
SYSCTLS = Path("/proc/sys/net")
# Ours, and that of process 1: in a container or under `ip netns exec` they differ.
OWN_NETNS = (Path("/proc/self/ns/net"), Path("/proc/1/ns/net"))

# A namespace is born with the IPv4 settings of the host (devconf_inherit_init_net), so a host that routes would take
# XDP_PASS down another path; and IPv6 sends frames by itself, which would be counted with those of a measurement.
QUIET = {
    "ipv6/conf/all/disable_ipv6": "1",
    "ipv6/conf/default/disable_ipv6": "1",
    "ipv4/ip_forward": "0",
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/default/rp_filter": "0",
}

# A link that we made is in this group from its first moment: the kernel sets the group with the link. The alias, which
# names the lab, takes a second message, so a link whose creation was killed in between has the group only.
OWNER_GROUP = 0x78647072
OWNER_ALIAS = "xdprepro lab={owner}"

# The kernel puts these into every namespace when it has such a tunnel driver (net_has_fallback_tunnels()).
KERNEL_LINKS = frozenset(
    ["lo", "tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "sit0", "ip6tnl0", "ip6gre0"]
)

# These are no links, but directories beside those of the links in /proc/sys/net/*/conf.
NO_LINKS = frozenset(["all", "default"])

# What the kernel allows: ETH_MIN_MTU and ETH_MAX_MTU for the MTU, rtnl_create_link() for the queues.
MTU_RANGE = (68, 65535)
QUEUES_RANGE = (1, 4096)
IFNAMSIZ = 16

State = dict[str, Any]


class LabLinksError(Exception):
    """What the user can mend: a fact with its values."""


def run_module(module: AnsibleModule, work: Callable[[State, bool], State]) -> None:
    """Answer with what `work(params, check_mode)` returns, or fail with the reason."""
    if PYROUTE2_ERROR is not None:
        module.fail_json(msg=missing_required_lib("pyroute2"), exception=PYROUTE2_ERROR)
    try:
        answer = work(module.params, module.check_mode)
    except LabLinksError as error:
        module.fail_json(msg=str(error))
    except NetlinkError as error:
        fail(module, error.code, os.strerror(error.code))
    except OSError as error:
        fail(module, error.errno, str(error))
    module.exit_json(**answer)


def fail(module: AnsibleModule, code: int | None, reason: str) -> None:
    hint = "; namespaces and links need CAP_SYS_ADMIN and CAP_NET_ADMIN" if code == errno.EPERM else ""
    module.fail_json(msg=f"the kernel refuses: {reason}{hint}", exception=traceback.format_exc())


def check_ifname(ifname: str) -> None:
    """The rules of dev_valid_name() in the kernel, and no pattern: it would put a number in place of a '%d'."""
    illegal = ifname in ("", ".", "..") or any(c in "/:%{" or c.isspace() for c in ifname)
    if illegal or len(ifname.encode()) >= IFNAMSIZ:
        allowed = f"1 to {IFNAMSIZ - 1} bytes without '/', ':', '%', '{{' and spaces"
        raise LabLinksError(f"{ifname!r} cannot name a link: {allowed}")
    if ifname in KERNEL_LINKS | NO_LINKS:
        raise LabLinksError(f"{ifname!r} cannot name a link: the kernel uses the name in every namespace")


def check_netns_name(name: str) -> None:
    """A namespace's name is the name of a file."""
    if not name or name.startswith(".") or "/" in name or len(name.encode()) > 255:
        raise LabLinksError(f"{name!r} cannot name a namespace: 1 to 255 bytes without '/', no dot in front")


def check_range(what: str, value: int, allowed: tuple[int, int]) -> None:
    low, high = allowed
    if not low <= value <= high:
        raise LabLinksError(f"{what} {value} is out of range: the kernel allows {low} to {high}")


@contextmanager
def inside(name: str) -> Iterator[None]:
    """Be in the namespace: sockets opened and /proc/sys/net read in here are its own."""
    netns.pushns()
    try:
        netns.setns(name, flags=0)  # without O_CREAT, which is the default
        yield
    finally:
        netns.popns()


# Namespaces


def read_netns(name: str) -> State:
    """One namespace with its links by name.

    `state` is `present`, `absent` or `dead` (a file without a namespace on it: a creation was interrupted).
    `sysctls` has those of QUIET that the kernel knows.
    """
    state = _read_name(name)
    if state != "present":
        return {"name": name, "state": state, "sysctls": {}, "links": {}}
    with inside(name):
        return {"name": name, "state": state, "sysctls": _read_sysctls(), "links": _read_links()}


def create_netns(name: str) -> None:
    """Make the namespace, or finish one whose making was interrupted, and set QUIET before any link is up in it."""
    state = _read_name(name)
    if state == "dead":
        (NETNS_DIR / name).unlink()
    if state != "present":
        netns.create(name)
    with inside(name):
        for key in _read_sysctls():
            (SYSCTLS / key).write_text(QUIET[key])


def remove_netns(name: str, owner: str) -> None:
    """Remove our links, then the name.

    The kernel tears a namespace down later, in a worker. The links go first and at once, so nothing of the old lab is
    left to meet the new one, not even when a process still holds the namespace.
    """
    state = read_netns(name)
    if state["state"] == "present":
        delete_links(state, owner)
    netns.remove(name)


def refuse_own_netns(state: State) -> None:
    """A name may lead to the machine's own namespace; nothing in that one is for us to change or to remove."""
    if state["state"] != "present":
        return
    path = NETNS_DIR / state["name"]
    if any(_is_same_file(path, own) for own in OWN_NETNS):
        raise LabLinksError(
            f"{path} leads to the network namespace of this machine itself, not to one that xdprepro made; "
            f"take the name away ('umount {path}')"
        )


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except PermissionError:  # root in a container may not look into process 1; its namespace cannot be bound then
        return False


def refuse_foreign_links(state: State, owner: str) -> None:
    refuse_own_netns(state)
    foreign = sorted(ifname for ifname, link in state["links"].items() if not is_ours(link, owner))
    if foreign:
        raise LabLinksError(
            f"the namespace {state['name']} holds links that xdprepro did not make: {', '.join(foreign)}; "
            f"remove them ('ip -n {state['name']} link del {foreign[0]}') or rename the lab's inventory directory"
        )


def _read_name(name: str) -> str:
    try:
        device = (NETNS_DIR / name).stat().st_dev
    except FileNotFoundError:
        return "absent"
    return "present" if device == Path("/proc/self/ns/net").stat().st_dev else "dead"


def _read_sysctls() -> dict[str, str]:
    return {name: (SYSCTLS / name).read_text().strip() for name in QUIET if (SYSCTLS / name).exists()}


def is_quiet(state: State) -> bool:
    """Whether the settings of a namespace are those of QUIET."""
    return all(QUIET[name] == value for name, value in state["sysctls"].items())


# Links


def is_ours(link: State, owner: str) -> bool:
    """Made by us for this lab, or by the kernel for the namespace."""
    ours = OWNER_ALIAS.format(owner=owner)
    half_made = link["group"] == OWNER_GROUP and not link["alias"]
    return link["alias"] == ours or half_made or link["ifname"] in KERNEL_LINKS


def read_link(name: str, ifname: str) -> State | None:
    """The link of that name in the namespace, if both are there."""
    link: State | None = read_netns(name)["links"].get(ifname)
    return link


def delete_links(state: State, owner: str) -> None:
    """Remove every link of ours from one namespace; the other end of a veth goes with it."""
    with inside(state["name"]), IPRoute() as ipr:
        for ifname, link in state["links"].items():
            if is_ours(link, owner) and ifname not in KERNEL_LINKS:
                _delete_link(ipr, link["ifindex"])


def _delete_link(ipr: Any, ifindex: int) -> None:
    try:
        ipr.link("del", index=ifindex)
    except NetlinkError as error:
        if error.code != errno.ENODEV:  # it went with its other end
            raise


def create_pair(ends: list[State], *, queues: int, mtu: int, owner: str) -> None:
    """Make the pair directly in its two namespaces, marked and up."""
    shape = {"num_rx_queues": queues, "num_tx_queues": queues, "mtu": mtu, "group": OWNER_GROUP}
    near, far = ({"ifname": end["ifname"], "address": end["mac"], **shape} for end in ends)
    with _open_netns(ends[1]["netns"]) as peer_fd, inside(ends[0]["netns"]), IPRoute() as ipr:
        ipr.link("add", kind="veth", **near, peer={**far, "net_ns_fd": peer_fd})
    for end in ends:
        with inside(end["netns"]), IPRoute() as ipr:
            ipr.link("set", ifname=end["ifname"], ifalias=OWNER_ALIAS.format(owner=owner), state="up")


def is_joined(near: State, far: State) -> bool:
    """The two ends, each `{netns, ifname}`, are two ends of one pair."""
    links = [read_link(end["netns"], end["ifname"]) for end in (near, far)]
    if links[0] is None or links[1] is None or links[0]["peer_ifindex"] != links[1]["ifindex"]:
        return False
    with _open_netns(far["netns"]) as far_fd, inside(near["netns"]), IPRoute() as ipr:
        nsid: int = ipr.get_netnsid(fd=far_fd)["nsid"]
    return bool(links[0]["peer_nsid"] == nsid)


@contextmanager
def _open_netns(name: str) -> Iterator[int]:
    fd = os.open(NETNS_DIR / name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _read_links() -> dict[str, State]:
    with IPRoute() as ipr:
        links = [_link_state(link) for link in ipr.get_links()]
    return {link["ifname"]: link for link in links}


def _link_state(link: Any) -> State:
    xdp = link.get_attr("IFLA_XDP")
    ifname = link.get_attr("IFLA_IFNAME")
    allocated = {"rx": link.get_attr("IFLA_NUM_RX_QUEUES"), "tx": link.get_attr("IFLA_NUM_TX_QUEUES")}
    return {
        "ifname": ifname,
        "ifindex": link["index"],
        "kind": link.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND"),
        "alias": link.get_attr("IFLA_IFALIAS") or "",
        "group": link.get_attr("IFLA_GROUP"),
        "mac": link.get_attr("IFLA_ADDRESS"),
        "mtu": link.get_attr("IFLA_MTU"),
        "up": link["state"] == "up",
        "carrier": bool(link.get_attr("IFLA_CARRIER")),
        "qdisc": link.get_attr("IFLA_QDISC"),
        "promiscuity": link.get_attr("IFLA_PROMISCUITY"),
        "queues": allocated,
        "channels": _read_channels(ifname) or allocated,
        "xdp_attached": xdp is not None and xdp.get_attr("IFLA_XDP_ATTACHED") is not None,
        "peer_ifindex": link.get_attr("IFLA_LINK"),
        "peer_nsid": link.get_attr("IFLA_LINK_NETNSID"),
    }


def _read_channels(ifname: str) -> dict[str, int] | None:
    """The queues in use; None where the driver has no channels (then all that were allocated are in use)."""
    ethtool = IoctlEthtool(ifname)
    try:
        channels = ethtool.get_channels()
    except NotSupportedError:
        return None
    finally:
        ethtool.close()
    return {"rx": channels["rx_count"], "tx": channels["tx_count"]}

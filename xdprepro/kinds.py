# SPDX-License-Identifier: GPL-2.0-or-later
"""The kinds of cases, `<layer>.<op>[.<touch>]`: who does what to a packet, and where it ends. The agent has them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CaseKind:
    """What the packets of a case meet.

    `role` is the agent's part on the DUT. `action` is what the BPF program must return, for packets that its counters
    see; `also` are further actions that belong to the case. `groups` are the parameters that it has (xdprepro.cases).
    `program` and `app` are the prefixes of the counters of its program and its application, "" for none.
    `uses_xsk`: packets end at, or come from, an AF_XDP application, rather than in the kernel. `for_others`: packets
    have the address of no port, so that a stack drops them as soon as it sees them.
    """

    role: str
    action: str
    about: str
    groups: frozenset[str]
    program: str = ""
    app: str = ""
    also: tuple[str, ...] = ()
    uses_xsk: bool = False
    for_others: bool = False

    @property
    def has_tester(self) -> bool:
        """Whether packets travel at all."""
        return self.role != "ring"

    @property
    def in_app(self) -> bool:
        """Whether the application, and not the program, says that a packet was handled."""
        return bool(self.app) and (self.uses_xsk or not self.program)


TOUCHES: Mapping[str, str] = {
    "no-touch": "without looking at the packet",
    "read-data": "having read the Ethernet header",
    "parse-ip": "having parsed Ethernet, IPv4 or IPv6",
    "swap-macs": "having swapped the MAC addresses",
}

WORKS: Mapping[str, str] = {
    "mem": "after a read and a write of one random line of a working set",
    "csum": "after some iterations of a checksum over the first 30 bytes of the datagram",
    "fw": "after a look-up of the flow in an access list, which has it",
    "lb": "after load balancing: session look-up and header rewrite",
    "lbfw": "after an access list, which drops a share, and load balancing",
}
# The parameters of a work; each is a group of its own.
WORK_GROUPS: Mapping[str, frozenset[str]] = {
    "mem": frozenset({"lines", "seed"}),
    "csum": frozenset({"iterations"}),
    "fw": frozenset({"acl", "seed"}),
    "lb": frozenset({"sessions", "seed"}),
    "lbfw": frozenset({"acl", "sessions", "drop_share", "seed"}),
}

# Of which groups every case has the parameters, by where its packets come from.
LOADED = frozenset({"trial", "frame", "load"})
SENDING = frozenset({"trial", "frame"})
ALONE = frozenset({"trial"})
# layer -> groups of its cases, besides.
XDP = frozenset({"xdp"})
XSK = frozenset({"xdp", "xsk"})

# op -> (action, role, what happens)
XDP_OPS: Mapping[str, tuple[str, str, str]] = {
    "drop": ("XDP_DROP", "sink", "drop"),
    "pass": ("XDP_PASS", "sink", "hand to the stack, which drops it,"),
    "abort": ("XDP_ABORTED", "sink", "abort"),
    "tx": ("XDP_TX", "forward", "send back out of the same port"),
    "redirect": ("XDP_REDIRECT", "forward", "the same by bpf_redirect() to an ifindex,"),
    "redirect-map": ("XDP_REDIRECT", "forward", "the same by bpf_redirect_map() and a devmap,"),
}
XDP_TOUCHES: Mapping[str, tuple[str, ...]] = {
    "drop": tuple(TOUCHES),
    "pass": tuple(TOUCHES),
    "abort": ("no-touch",),
    "tx": tuple(TOUCHES),
    "redirect": ("no-touch", "swap-macs"),
    "redirect-map": ("no-touch", "swap-macs"),
}
BOUND_TOUCHES: Mapping[str, tuple[str, ...]] = {
    "drop": ("no-touch", "swap-macs"),
    "pass": ("swap-macs",),
    "tx": ("swap-macs",),
}
# A firewall that knows the flow drops it; a load balancer sends it on.
SINK_WORKS = ("mem", "csum", "fw")
FORWARD_WORKS = ("mem", "csum", "lb", "lbfw")


def _xdp_kinds() -> Iterator[tuple[str, CaseKind]]:
    for op, touches in XDP_TOUCHES.items():
        action, role, words = XDP_OPS[op]
        for touch in touches:
            groups = LOADED | XDP | (frozenset() if touch == "no-touch" else {"access"})
            yield f"xdp.{op}.{touch}", CaseKind(role, action, f"{words} {TOUCHES[touch]}", groups, "xdp_prog")
    multi = "send a copy to each slot of a devmap, having swapped the MAC addresses"
    yield (
        "xdp.redirect-multi.swap-macs",
        CaseKind("forward", "XDP_REDIRECT", multi, LOADED | XDP | {"fanout"}, "xdp_prog"),
    )
    cpu = "hand to another CPU by a cpumap, where a second program may decide"
    yield (
        "xdp.redirect-cpu.no-touch",
        CaseKind("sink", "XDP_REDIRECT", cpu, LOADED | XDP | {"cpumap"}, "xdp_prog"),
    )


def _bound_kinds() -> Iterator[tuple[str, CaseKind]]:
    for op, touches in BOUND_TOUCHES.items():
        action, role, words = XDP_OPS[op]
        for touch in touches:
            about = f"{words} {TOUCHES[touch]} while an AF_XDP socket is bound"
            yield f"xdpxsk.{op}.{touch}", CaseKind(role, action, about, LOADED | XSK, "xdp_prog", "xsk_app")


def _xsk_kind(role: str, about: str, groups: frozenset[str] = LOADED | XSK, **more: Any) -> CaseKind:
    return CaseKind(role, "XDP_REDIRECT", about, groups, "xdp_prog", "xsk_app", uses_xsk=True, **more)


XSK_KINDS: Mapping[str, CaseKind] = {
    "xsk.rxdrop": _xsk_kind("sink", "redirect to an AF_XDP socket, which drops in user space"),
    "xsk.rxdrop.swap-macs": _xsk_kind("sink", "the same, having swapped the MAC addresses in user space"),
    "xsk.l2fwd.swap-macs": _xsk_kind(
        "forward", "redirect to an AF_XDP socket, swap the MAC addresses in user space, send back"
    ),
    "xsk.txonly": CaseKind("transmit", "", "send from an AF_XDP socket", SENDING | XSK, app="xsk_app", uses_xsk=True),
}


def _work_kinds() -> Iterator[tuple[str, CaseKind]]:
    for op, works in (("drop", SINK_WORKS), ("tx", FORWARD_WORKS)):
        action, role, words = XDP_OPS[op]
        app_op, app_words = ("rxdrop", "drop") if op == "drop" else ("l2fwd", "send back")
        for work in works:
            groups = LOADED | XDP | WORK_GROUPS[work]
            also = ("XDP_DROP",) if work == "lbfw" else ()
            about = f"{words} {WORKS[work]}"
            yield f"xdp.{op}.{work}", CaseKind(role, action, about, groups, "xdp_prog", also=also)
            yield f"xsk.{app_op}.{work}", _xsk_kind(role, f"{app_words} in user space {WORKS[work]}", groups | XSK)
            yield (
                f"xdpxsk.{op}.{work}",
                CaseKind(
                    role,
                    action,
                    f"{about}, while an AF_XDP socket is bound",
                    groups | XSK,
                    "xdp_prog",
                    "xsk_app",
                    also=also,
                ),
            )
    hybrid = "XDP drops by an access list, an AF_XDP application load-balances the rest"
    yield (
        "xdpxsk.l2fwd.lbfw",
        _xsk_kind("forward", hybrid, LOADED | XSK | WORK_GROUPS["lbfw"], also=("XDP_DROP",)),
    )


LOCAL_KINDS: Mapping[str, CaseKind] = {
    "stack.local": CaseKind("sink", "", "to the stack without any program; the stack drops", LOADED, for_others=True),
    "xsk.local.swap-macs": _xsk_kind(
        "sink", "redirect to an AF_XDP socket, which hands to the stack through a veth pair", for_others=True
    ),
}


def _packet_kinds() -> Iterator[tuple[str, CaseKind]]:
    for version in ("v2", "v3"):
        groups = frozenset({"packet"} | ({"timeout"} if version == "v3" else set()))
        for op, role, about in (
            ("rxdrop", "sink", "receive by an AF_PACKET ring, which drops in user space"),
            ("l2fwd", "forward", "the same, swap the MAC addresses and send back by a second ring"),
            ("txonly", "transmit", "send from an AF_PACKET ring"),
        ):
            origin = SENDING if role == "transmit" else LOADED
            yield (
                f"pkt-{version}.{op}",
                CaseKind(role, "", f"{about} (TPACKET_{version.upper()})", origin | groups, app="pkt_app"),
            )


SOCKET_KINDS: Mapping[str, CaseKind] = {
    "udp.rxdrop": CaseKind("sink", "", "receive by a UDP socket, drop in user space", LOADED | {"udp"}, app="udp_app"),
    "tc.drop.no-touch": CaseKind("sink", "TC_ACT_SHOT", "drop at TC ingress", LOADED, "tc_prog"),
    "tc.redirect.swap-macs": CaseKind(
        "forward", "TC_ACT_REDIRECT", "send back from TC ingress by bpf_redirect()", LOADED, "tc_prog"
    ),
}

RING_KINDS: Mapping[str, CaseKind] = {
    f"ring.{name}": CaseKind("ring", "", about, ALONE | {"ring"}, app="ring")
    for name, about in (
        ("head-tail", "two threads and a ring of producer and consumer indices"),
        ("ptr-ring", "two threads and a ring of pointers, where empty slots are NULL"),
        ("ptr-ring-batch", "the same, emptied in batches as ptr_ring.h does"),
    )
}

CASE_KINDS: Mapping[str, CaseKind] = {
    **dict(_xdp_kinds()),
    **XSK_KINDS,
    **dict(_bound_kinds()),
    **dict(_work_kinds()),
    **LOCAL_KINDS,
    **dict(_packet_kinds()),
    **SOCKET_KINDS,
    **RING_KINDS,
}

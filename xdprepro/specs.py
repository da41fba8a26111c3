# SPDX-License-Identifier: GPL-2.0-or-later
"""What the agents are told: which CPU does what, and the specs of both ends (docs/protocol.md)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdprepro.cases import LARGE_XSK_FRAME, LARGEST_IN_SMALL, LARGEST_MTU, SMALL_XSK_FRAME, Case
from xdprepro.errors import UNAVAILABLE, XdpreproError
from xdprepro.lab import Host, Lab

KEEPS_MACS = ("no-touch", "read-data", "parse-ip")
OTHER_MAC_BIT = 0x04  # of the first byte
DISCARD_PORT = 9  # where the frames of the generators go
Section = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cpus:
    """Which CPU does what: one samples; applications, the far ends of a cpumap and generators have some each."""

    sampler: int
    apps: tuple[int, ...]
    remotes: tuple[int, ...]
    generators: tuple[int, ...]


def plan_cpus(cpus: Sequence[int], case: Case) -> Cpus:
    """Generators on the last CPUs, applications and a cpumap before them where there is room, the sampler on the first.

    The two threads of a ring get the last two CPUs.
    """
    for key, wanted in (("generators", case.generators), ("remote_cpus", case.remote_cpus)):
        if wanted > len(cpus):
            raise XdpreproError(
                f"{case.id}: {key} = {wanted}, this machine has {len(cpus)} CPUs online",
                hint=f"set {key} to {len(cpus)} or less",
                status=UNAVAILABLE,
            )
    generators = _last_of(cpus, cpus, case.generators)
    others = [cpu for cpu in cpus if cpu not in generators] or list(cpus)
    threads = 2 if case.role == "ring" else case.xsk_threads or 1
    return Cpus(
        sampler=others[0],
        apps=_last_of(others, cpus, threads),
        remotes=_last_of(others, cpus, case.remote_cpus),
        generators=generators,
    )


def _last_of(free: Sequence[int], every: Sequence[int], count: int) -> tuple[int, ...]:
    """So many CPUs of those that are free, or of all where these are too few."""
    pool = free if len(free) >= count else every
    return tuple(pool[max(0, len(pool) - count) :])


def make_dut_spec(lab: Lab, case: Case, cpus: Cpus, queues: Sequence[int]) -> dict[str, Any]:
    """The spec of the agent under test."""
    spec = {
        "role": case.role,
        "case": case.case,
        "settle_s": case.settle_s,
        "measure_s": case.measure_s,
        "interval_s": case.interval_s,
        "sampler_cpu": cpus.sampler,
    }
    if case.kind.has_tester:
        # A case without an XDP program has no mode; the agent then attaches nothing.
        spec |= {"ifname": lab.dut.ifname, "attach_mode": case.attach_mode or "skb"}
    if case.role == "transmit":
        spec |= {"count": 0, "frame": _frame_section(lab.dut, lab.tester, case)}
    if case.pass_ != "rate":
        spec |= {"pass": case.pass_} | ({"pmu_group": case.pmu_group} if case.pmu_group else {})
    return spec | {key: section for key, make in SECTIONS.items() if (section := make(case, cpus, queues))}


def make_tester_spec(lab: Lab, case: Case, cpus: Cpus) -> dict[str, Any]:
    """The spec of the other end: a generator, which also counts what comes back, or a sink for what the DUT sends."""
    common = {
        "ifname": lab.tester.ifname,
        "attach_mode": "native",
        "interval_s": case.interval_s,
        "sampler_cpu": cpus.sampler,
    }
    if case.role == "transmit":
        times = {"settle_s": case.settle_s, "measure_s": case.measure_s}
        # Without fragments no program attaches to a port with so large an MTU.
        xdp = {"xdp": {"frags": True}} if lab.mtu > LARGEST_MTU else {}
        return {"role": "sink", "case": "xdp.drop.no-touch", **common, **times, **xdp}
    return {
        "role": "generate",
        **common,
        "generator": case.generator,
        "cpus": list(cpus.generators),
        "batch": case.generator_batch,
        "count": 0,
        **({"rate_pps": case.rate_pps} if case.rate_pps else {}),
        **({"closed_loop": case.outstanding} if case.outstanding else {}),
        "frame": _frame_section(lab.tester, lab.dut, case),
        # An adapter takes no frames for others, and these come back with the address that they were sent to.
        **({"promiscuous": True} if case.role == "forward" and case.case.endswith(KEEPS_MACS) else {}),
    }


def _frame_section(sender: Host, receiver: Host, case: Case) -> Section:
    dst_mac = _not_quite(receiver.mac) if case.kind.for_others else receiver.mac
    frame = {"dst_mac": dst_mac, "src_mac": sender.mac, "frame_len": case.frame_len, "flows": case.flows}
    # Pages of live frames come again as they were left, and these works write more than addresses.
    return frame | ({"restore": True} if case.has("iterations") or case.has("sessions") else {})


def _not_quite(mac: str) -> str:
    """Another unicast address, for which the stack drops what it gets."""
    return f"{int(mac[:2], 16) ^ OTHER_MAC_BIT:02x}{mac[2:]}"


def _xdp_section(case: Case, cpus: Cpus, _queues: Sequence[int]) -> Section:
    """Only what differs from what the agent does anyway; a cpumap has to be told its CPUs."""
    section: Section = {}
    if case.access == "load-bytes":
        section |= {"access": case.access}
    if case.frags and not case.has("xsk_batch"):
        section |= {"frags": True}
    if case.has("fanout"):
        section |= {"fanout": case.fanout}
    if case.has("remote"):
        section |= {"cpus": list(cpus.remotes), "qsize": case.qsize, "select": case.select, "remote": case.remote}
    return section


def _xsk_section(case: Case, cpus: Cpus, queues: Sequence[int]) -> Section:
    if not case.has("xsk_batch"):
        return {}
    fill = case.xsk_ring_fill or case.xsk_ring_rx * 2
    return {
        "bind_mode": case.bind_mode,
        "queues": list(queues[: case.xsk_queues or len(queues)]),
        "app_cpus": list(cpus.apps),
        "wakeup": case.wakeup,
        "batch": case.xsk_batch,
        "ring_rx": case.xsk_ring_rx,
        "ring_tx": case.xsk_ring_tx,
        "ring_fill": fill,
        "ring_completion": fill,  # room for every frame, as all may have been sent
        "frames": fill // case.xsk_sockets,
        "frame_size": _frame_size(case),
        "unaligned": case.unaligned,
        "huge_pages": case.huge_pages,
        "shared_umem": case.shared_umem,
        "sockets": case.xsk_sockets,
        "frags": case.frags,
    } | ({key: case.get(key) for key in ("busy_poll_us", "busy_poll_budget")} if case.has("busy_poll_us") else {})


def _frame_size(case: Case) -> int:
    """Bytes of a socket's memory for one packet."""
    small = case.frame_len <= LARGEST_IN_SMALL
    return case.xsk_frame_size or (SMALL_XSK_FRAME if small else LARGE_XSK_FRAME)


WORK_KEYS = {
    "lines": "lines",
    "iterations": "iterations",
    "acl": "acl",
    "sessions": "sessions",
    "backends": "backends",
    "drop_share": "drop_share",
    "work_seed": "seed",
}


def _work_section(case: Case, _cpus: Cpus, _queues: Sequence[int]) -> Section:
    section = {key: case.get(name) for name, key in WORK_KEYS.items() if case.has(name)}
    # Tables of flows have those that are sent.
    return section | ({"flows": case.flows} if "acl" in section or "sessions" in section else {})


def _packet_section(case: Case, cpus: Cpus, _queues: Sequence[int]) -> Section:
    if not case.has("packet_batch"):
        return {}
    return {
        "block_size": case.packet_block_size,
        "blocks": case.packet_blocks,
        "frame_size": _frame_size(case),
        "batch": case.packet_batch,
        "app_cpu": cpus.apps[0],
        "wakeup": case.packet_wakeup,
        "bypass": case.bypass,
    } | ({"timeout_ms": case.packet_timeout_ms} if case.has("packet_timeout_ms") else {})


def _udp_section(case: Case, cpus: Cpus, _queues: Sequence[int]) -> Section:
    return {"app_cpu": cpus.apps[0], "batch": case.udp_batch, "port": DISCARD_PORT} if case.has("udp_batch") else {}


def _ring_section(case: Case, cpus: Cpus, _queues: Sequence[int]) -> Section:
    if not case.has("ring_batch"):
        return {}
    return {
        "size": case.ring_size,
        "batch": case.ring_batch,
        "fill": case.ring_fill,
        "faster": case.ring_faster,
        "producer_cpu": cpus.apps[-1],
        "consumer_cpu": cpus.apps[0],
    }


# Key of a section -> what makes it; one that has nothing to say is left out.
SECTIONS: Mapping[str, Callable[[Case, Cpus, Sequence[int]], Section]] = {
    "xdp": _xdp_section,
    "xsk": _xsk_section,
    "work": _work_section,
    "packet": _packet_section,
    "udp": _udp_section,
    "ring": _ring_section,
}

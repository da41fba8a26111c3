# SPDX-License-Identifier: GPL-2.0-or-later
"""What a case needs of the ports and the machine, and which of it the probes say is not there."""

from collections.abc import Iterator, Mapping
from typing import Any

from xdprepro.cases import ETHERNET_BYTES, LARGEST_IN_ONE_PAGE, LARGEST_MTU, Case
from xdprepro.load import is_saturated
from xdprepro.working_set import missing_cache

Probe = Mapping[str, Any]


def find_missing(case: Case, dut: Probe, tester: Probe) -> str:
    """Why this case cannot run on these ports, or nothing."""
    if not case.kind.has_tester:
        return next(_missing_cpus(case, dut), "")
    ends = (("DUT", dut, dut_capabilities(case)), ("tester", tester, tester_capabilities(case, tester)))
    for end, probe, capabilities in ends:
        for capability in capabilities:
            answer = probe["can"].get(capability, {"ok": False, "reason": "the agent did not try it"})
            if not answer["ok"]:
                reason = answer.get("reason", "no reason given")
                return f"{end} {probe['ifname']} (MTU {probe['mtu']}) has no {capability.replace('_', ' ')}: {reason}"
    if reason := _missing_load(case) or missing_cache(case):
        return reason
    return next((reason for find in (_missing_on_the_port, _missing_cpus) for reason in find(case, dut)), "")


def find_guest_refusal(case: Case) -> str:
    """Why no guest measures this case, whatever it can do, or nothing: its loads are counted packets, and no clock is
    right in it. Its caches are its processor model's."""
    if not is_saturated(case.params()):
        return f"load = {case.load} needs a clock, which a guest has not"
    return missing_cache(case)


def _missing_load(case: Case) -> str:
    """Why the generator cannot make this load."""
    if case.load == "closed" and case.role != "forward":
        return "load = closed waits for packets to return, and those of this case do not"
    if case.load == "closed" and case.generators > 1:
        return "load = closed is for one generator: two could not tell whose packets return"
    if case.load == "closed" and case.generator == "live-frames":
        return "load = closed needs the generator af-packet: live frames cannot wait"
    if case.generator == "live-frames" and case.frame_len > LARGEST_IN_ONE_PAGE:
        return f"live frames have {LARGEST_IN_ONE_PAGE} bytes at most: use the generator af-packet"
    return ""


def dut_capabilities(case: Case) -> tuple[str, ...]:
    """The keys of a probe's `can` that must be true of the DUT."""
    attach = "multi_buffer" if case.frags and case.attach_mode == "native" else f"xdp_{case.attach_mode}"
    wanted = {
        attach: bool(case.attach_mode),
        f"xsk_{case.bind_mode.replace('-', '_')}": bool(case.bind_mode),
        "busy_poll": case.wakeup == "busy-poll",
        "huge_pages": case.huge_pages,
        "load_bytes": case.access == "load-bytes",
        "redirect_multi": case.has("fanout"),
        "redirect_cpu": case.has("remote"),
        "af_packet": case.has("packet_batch"),
        "tc": case.kind.program == "tc_prog",
        "pmu": case.pass_ == "pmu" and case.pmu_group != "software",
    }
    return tuple(name for name, needed in wanted.items() if needed)


def tester_capabilities(case: Case, tester: Probe) -> tuple[str, ...]:
    """The same of the tester, whose program to count what comes takes fragments where the MTU asks for it."""
    attach = "multi_buffer" if tester["mtu"] > LARGEST_MTU else "xdp_native"
    return (attach, case.generator.replace("-", "_")) if case.generator else (attach,)


def _missing_on_the_port(case: Case, dut: Probe) -> Iterator[str]:
    name = f"DUT {dut['ifname']}"
    if case.frame_len > dut["mtu"] + ETHERNET_BYTES:
        yield f"{name} has MTU {dut['mtu']}, frame_len {case.frame_len} needs {case.frame_len - ETHERNET_BYTES}"
    # veth's counters are plain additions, and two CPUs that send into one queue lose some.
    if case.generators > dut["rx_queues"]:
        yield f"{name} has {dut['rx_queues']} receive queues, generators = {case.generators} needs as many"
    # An application sends from the queue that it receives from.
    queues = (case.xsk_queues or dut["rx_queues"]) if case.kind.uses_xsk and case.role in ("forward", "transmit") else 0
    if queues > dut["tx_queues"]:
        yield f"{name} has {dut['tx_queues']} transmit queues, sending from {queues} sockets needs as many"
    if case.xsk_queues > dut["rx_queues"]:
        yield f"{name} has {dut['rx_queues']} receive queues, xsk_queues = {case.xsk_queues} needs as many"


def _missing_cpus(case: Case, dut: Probe) -> Iterator[str]:
    have = len(dut["cpus"])
    for what, wanted in (
        ("generators", case.generators),
        ("remote_cpus", case.remote_cpus),
        ("xsk_threads", case.xsk_threads),
        ("a ring between two threads", 2 if case.role == "ring" else 0),
    ):
        if wanted > have:
            yield f"the machine has {have} CPUs, {what} needs {wanted}"

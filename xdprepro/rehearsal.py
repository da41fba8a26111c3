# SPDX-License-Identifier: GPL-2.0-or-later
"""A case set up on a lab without a packet, and a few packets without the case: what no probe can tell beforehand."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from xdprepro import cmd
from xdprepro.cases import Case
from xdprepro.errors import XdpreproError
from xdprepro.lab import Lab
from xdprepro.preflight import ERROR, Check, Place
from xdprepro.sample import format_agent_error, parse_stream
from xdprepro.specs import make_dut_spec, plan_cpus
from xdprepro.trial import AGENT, ANSWER_S, run_trial

PROBE_PPS = 10_000
PROBE_S = 0.1
STEERED = 0.99  # of the packets are to arrive where the case looks for them
COUNTED = re.compile(r"xdp_prog\.cpu\d+\.rxq(\d+)\.XDP_DROP\.packets")
# A mapping of a fill ring, which only AF_XDP sockets have (XDP_UMEM_PGOFF_FILL_RING).
FILL_RING = re.compile(r"^\S+ \S+ 100000000 .*socket:\[\d+\]", re.MULTILINE)


def check_set_up(case: Case, place: Place) -> Check:
    """Whether the agent gets ready for the case, by its own word; it is ended before anything is sent."""
    want = "the agent gets ready for the case"
    spec = make_dut_spec(place.lab, case, plan_cpus(place.dut["cpus"], case), range(place.dut["rx_queues"]))
    with cmd.start_process([str(AGENT), "trial"], netns=place.lab.dut.netns) as agent:
        agent.send(spec)
        message: Mapping[str, Any] = {}
        while "ready" not in message and "error" not in message:
            message = agent.read(ANSWER_S)
    if "ready" in message:
        return Check("set-up", want, "ready")
    error = message["error"]
    if error.get("step") == "bind" and "busy" in error["reason"]:
        return _busy(want, error, place)
    return Check("set-up", want, format_agent_error(error), ERROR, error.get("hint", "mend what it names"))


def _busy(want: str, error: Mapping[str, Any], place: Place) -> Check:
    holders = find_xsk_holders(place.lab.dut.netns)
    held = f"; AF_XDP sockets are held by {', '.join(holders)}" if holders else ""
    fix = f"end {holders[0]}" if holders else "end the program that has a socket on this queue"
    return Check("busy-queue", want, f"{format_agent_error(error)}{held}", ERROR, fix)


def check_steering(case: Case, place: Place) -> Check:
    """Where packets of the case's generator arrive, and whether the case looks for them there."""
    counted = count_queues(place.lab, case, place)
    total, rx = sum(counted.values()), place.dut["rx_queues"]
    queues = range(case.xsk_queues or rx)
    words = "any queue" if len(queues) == rx else f"queue {queues[0]} to {queues[-1]}" if queues[1:] else "queue 0"
    want = f"packets, and {STEERED:.0%} of them on {words}"
    shares = (f"{count / total:.0%} on queue {queue}" for queue, count in sorted(counted.items()))
    got = ", ".join(shares) or "no packet arrived"
    if not total:
        return Check("steering", want, got, ERROR, f"see what 'xdprepro archive show' tells of {case.generator}")
    if sum(counted[queue] for queue in queues) < STEERED * total:
        steer = f", or steer them: 'ethtool -X {place.dut['ifname']} equal {len(queues)}'"
        # A veth port has the queue of the sender, so there is nothing to steer.
        fix = f"set xsk_queues to {rx}, or leave it away{'' if place.dut['driver'] == 'veth' else steer}"
        return Check("steering", want, got, ERROR, fix)
    return Check("steering", want, got)


def count_queues(lab: Lab, case: Case, place: Place) -> Counter[int]:
    """Packets that arrive on each queue of the DUT, of a thousand that are sent as the case sends them."""
    said: dict[str, list[Mapping[str, Any]]] = {"dut": [], "tester": []}
    drop = replace(
        Case("xdp.drop.no-touch", attach_mode=case.attach_mode or "skb", load="fixed", rate_pps=PROBE_PPS),
        **{name: case.get(name) for name in ("frame_len", "frags", "flows", "generator", "generators")},
        settle_s=0.0,
        measure_s=PROBE_S,
    )
    run_trial(lab, drop, plan_cpus(place.dut["cpus"], case), [], lambda side, message: said[side].append(message))
    counted: Counter[int] = Counter()
    for name, value in parse_stream(said["dut"]).delta().items():
        if (found := COUNTED.fullmatch(name)) and value:
            counted[int(found[1])] += value
    return counted


def find_xsk_holders(netns: str | None) -> tuple[str, ...]:
    """The processes of a namespace with an AF_XDP socket, as `name (pid N)`; many kernels have no list of them."""
    wanted = Path("/run/netns", netns) if netns else Path("/proc/self/ns/net")
    return tuple(sorted(_iter_holders(wanted)))


def _iter_holders(wanted: Path) -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*"):
        # A process may end meanwhile, or be none of ours.
        with suppress(OSError):
            same = os.path.samestat((process / "ns/net").stat(), wanted.stat())
            if same and FILL_RING.search((process / "maps").read_text()):
                yield f"{(process / 'comm').read_text().strip()} (pid {process.name})"


def examine(case: Case, place: Place, *, packets: bool) -> Iterator[Check]:
    """What the agents say: first of the set-up, then of the packets where there are any, unless it has failed."""
    try:
        set_up = check_set_up(case, place)
        yield set_up
        if packets and set_up.severity != ERROR and case.role in ("sink", "forward"):
            yield check_steering(case, place)
    except XdpreproError as error:
        yield Check("set-up", "the agents get through it", error.message, ERROR, error.hint or "mend what it names")

# SPDX-License-Identifier: GPL-2.0-or-later
"""What a case needs of ports and machine: what is not there is named with the probe's own reason."""

from dataclasses import replace
from typing import Any

import pytest

from xdprepro.cases import Case
from xdprepro.needs import find_missing

ANYTHING = (
    *("xdp_native", "xdp_skb", "multi_buffer", "load_bytes", "redirect_multi", "redirect_cpu", "xsk_copy"),
    *("xsk_zero_copy", "huge_pages", "live_frames", "af_packet", "tc", "busy_poll", "pmu"),
)


def probe(ifname: str, *missing: str, **changes: Any) -> dict[str, Any]:
    """A port that can do everything but what is named."""
    can = {name: {"ok": False, "reason": "no"} if name in missing else {"ok": True} for name in ANYTHING}
    return {"ifname": ifname, "mtu": 1500, "rx_queues": 2, "tx_queues": 2, "cpus": [0, 1], "can": can, **changes}


@pytest.mark.parametrize(
    ("case", "capability"),
    [
        (Case("xdp.drop.no-touch", frags=True), "multi_buffer"),
        (Case("xdp.drop.no-touch", frags=True, attach_mode="skb"), "xdp_skb"),
        (Case("xdp.drop.read-data", access="load-bytes"), "load_bytes"),
        (Case("xdp.redirect-multi.swap-macs"), "redirect_multi"),
        (Case("xdp.redirect-cpu.no-touch"), "redirect_cpu"),
        (Case("xsk.rxdrop", bind_mode="zero-copy"), "xsk_zero_copy"),
        (Case("xdpxsk.drop.no-touch"), "xsk_copy"),
        (Case("xsk.rxdrop", wakeup="busy-poll"), "busy_poll"),
        (Case("xsk.rxdrop", huge_pages=True), "huge_pages"),
        (Case("pkt-v2.rxdrop"), "af_packet"),
        (Case("tc.drop.no-touch"), "tc"),
        (Case("xdp.drop.no-touch", pass_="pmu"), "pmu"),
    ],
    ids=lambda value: value.id if isinstance(value, Case) else value,
)
def test_a_case_needs_what_it_asks_for_and_no_other_case_does(case: Case, capability: str) -> None:
    generated = replace(case, generator="live-frames")
    lacking = probe("dut0", capability)
    assert find_missing(generated, probe("dut0"), probe("tester0")) == ""
    assert find_missing(generated, lacking, probe("tester0")) == (
        f"DUT dut0 (MTU 1500) has no {capability.replace('_', ' ')}: no"
    )
    others = Case("udp.rxdrop", generator="live-frames")
    assert find_missing(others, lacking, probe("tester0")) == ""


@pytest.mark.parametrize(
    ("case", "changes", "words"),
    [
        (Case("xsk.l2fwd.swap-macs"), {"tx_queues": 1}, "has 1 transmit queues, sending from 2 sockets needs as many"),
        (Case("xsk.rxdrop", xsk_queues=3), {}, "has 2 receive queues, xsk_queues = 3 needs as many"),
        (Case("xsk.rxdrop", xsk_threads=3), {}, "the machine has 2 CPUs, xsk_threads needs 3"),
        (Case("xdp.redirect-cpu.no-touch", remote_cpus=3), {}, "the machine has 2 CPUs, remote_cpus needs 3"),
        (Case("ring.head-tail"), {"cpus": [0]}, "the machine has 1 CPUs, a ring between two threads needs 2"),
    ],
    ids=lambda value: value.id if isinstance(value, Case) else "",
)
def test_too_few_queues_or_cpus_are_named_with_both_numbers(case: Case, changes: dict[str, Any], words: str) -> None:
    case = replace(case, generator="live-frames")
    assert words in find_missing(case, probe("dut0", **changes), probe("tester0"))


def test_a_tester_with_a_large_mtu_needs_fragments_whatever_the_case() -> None:
    case = Case("tc.drop.no-touch", frame_len=9000, generator="af-packet")
    large = {"mtu": 9000}
    assert find_missing(case, probe("dut0", **large), probe("tester0", "xdp_native", **large)) == ""
    missing = find_missing(case, probe("dut0", **large), probe("tester0", "multi_buffer", **large))
    assert missing == "tester tester0 (MTU 9000) has no multi buffer: no"


def test_a_ring_needs_no_port() -> None:
    nothing = probe("dut0", *ANYTHING)
    assert find_missing(Case("ring.head-tail"), nothing, nothing) == ""

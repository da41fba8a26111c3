# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets for others end in the stack, directly or by way of an AF_XDP application, and nothing stays behind."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_lab import (
    Agent,
    Line,
    Pair,
    generate_spec,
    make_pair,
    measure_spec,
    run,
    run_ethtool,
    run_trial,
    show_link,
    start_agent,
    total,
    xsk_part,
)

pytestmark = pytest.mark.netns

COUNT = 4000


@pytest.fixture
def pair(agent: Path, root_user: None) -> Iterator[Pair]:
    with make_pair(agent) as made:
        yield made


def for_others(pair: Pair, **changes: object) -> Line:
    """A generator whose frames have an address that is not dut0's."""
    line = generate_spec(pair, **{"count": COUNT, **changes})  # type: ignore[arg-type]
    mac = pair.dut_mac
    line["frame"]["dst_mac"] = f"{int(mac[:2], 16) ^ 0x04:02x}{mac[2:]}"
    return line


def assert_dropped_early(dut: Agent, source: str, packets: int) -> None:
    """The stack behind a port dropped them all as frames for others, before it looked at their IP headers."""
    moved = dut.moved()
    assert moved[f"{source}.rx_packets"] == packets
    assert moved[f"{source}.rx_otherhost_dropped"] == packets
    assert moved["snmp.Ip.InReceives"] == 0


@pytest.mark.parametrize("generator", ["live-frames", "af-packet"])
def test_stack_drops_every_packet_for_others(pair: Pair, generator: str) -> None:
    # Without a program the port has NAPI, which live frames need, only with GRO.
    run_ethtool(pair.dut, "-K", "dut0", "gro", "on")
    dut, _ = run_trial(pair, measure_spec("stack.local", measure_s=0.1), for_others(pair, generator=generator))
    (ready,) = (line for line in dut.lines if "ready" in line)
    assert ready["local"] == {"ifname": "dut0", "promiscuity": 1}
    assert "attach" not in ready
    assert_dropped_early(dut, "netdev", COUNT)
    assert show_link(pair.dut, "dut0")["promiscuity"] == 0


@pytest.mark.parametrize("wakeup", ["need-wakeup", "poll"])
@pytest.mark.parametrize("generator", ["live-frames", "af-packet"])
def test_application_hands_every_packet_to_the_stack(pair: Pair, generator: str, wakeup: str) -> None:
    spec = measure_spec("xsk.local.swap-macs", measure_s=0.1, xsk=xsk_part(wakeup=wakeup))
    dut, _ = run_trial(pair, spec, for_others(pair, generator=generator, flows=8))
    moved = dut.moved()
    received = total(moved, "xsk_app.", ".rx_packets")
    lost = total(moved, "xsk.", ".rx_dropped") + total(moved, "xsk.", ".rx_ring_full")
    assert received + lost == total(moved, "xdp_prog.", ".XDP_REDIRECT.packets") == COUNT
    assert received == total(moved, "xsk_app.", ".tx_packets") > 0
    # What found the stack's backlog full was dropped there.
    assert_dropped_early(dut, "local_netdev", received - moved["local_netdev.rx_dropped"])
    assert {name for name in dut.edge("end") if name.startswith("local_xsk.") and ".tx_" in name} == {
        f"local_xsk.q{queue}.{name}" for queue in (0, 1) for name in ("tx_invalid_descs", "tx_ring_empty_descs")
    }
    assert total(moved, "local_xsk.", ".tx_invalid_descs") == 0
    assert len(links(pair)) == 2


def links(pair: Pair) -> list[str]:
    return run("ip", "-n", pair.dut, "-brief", "link").splitlines()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_pair_goes_with_its_agent(pair: Pair, number: signal.Signals) -> None:
    spec = measure_spec("xsk.local.swap-macs", measure_s=60, xsk=xsk_part())
    with start_agent(pair, pair.dut, spec) as dut:
        ready = dut.wait_for("ready")
        assert ready["local"]["ifname"] in "".join(links(pair))
        dut.process.send_signal(number)
        dut.process.wait(10)
    # The kernel takes down the namespace of a process that was killed in its own time.
    deadline_s = time.monotonic() + 10
    while len(links(pair)) > 2:
        assert time.monotonic() < deadline_s, "the pair is still there"
        time.sleep(0.02)
    assert show_link(pair.dut, "dut0")["promiscuity"] == 0


def test_several_sockets_of_a_queue_are_refused(pair: Pair) -> None:
    spec = measure_spec("xsk.local.swap-macs", xsk=xsk_part(sockets=2, shared_umem=True))
    with start_agent(pair, pair.dut, spec) as dut:
        assert dut.end() == 2
    assert dut.lines[-1]["error"]["step"] == "xsk.sockets"
    assert len(links(pair)) == 2

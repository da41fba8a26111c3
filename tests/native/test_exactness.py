# SPDX-License-Identifier: GPL-2.0-or-later
"""Every packet is accounted for: the generator's, the program's, the driver's and the socket's counters agree."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from agent_lab import Agent, Pair, generate_spec, make_pair, measure_spec, run, run_ethtool, run_trial, total, xsk_part

pytestmark = pytest.mark.netns

SINKS = {"xdp.drop.no-touch": "XDP_DROP", "xdp.drop.read-data": "XDP_DROP", "xdp.pass.no-touch": "XDP_PASS"}
FORWARDERS = {
    "xdp.tx.swap-macs": "XDP_TX",
    "xdp.redirect.swap-macs": "XDP_REDIRECT",
    "xdp.redirect-map.swap-macs": "XDP_REDIRECT",
}
GENERATORS = ("live-frames", "af-packet")


@pytest.fixture(scope="module")
def pair(agent: Path, root_user: None) -> Iterator[Pair]:
    with make_pair(agent) as made:
        yield made


def accepted(tester: Agent) -> int:
    """Frames that the tester's kernel put into dut0's ring or backlog.

    A drop that AF_PACKET heard of is one of the generator's `errors`, and the frame was sent again.
    """
    moved = tester.moved()
    sent_again = total(moved, "generator.cpu", ".errors")
    return total(moved, "generator.cpu", ".packets") - max(0, moved["netdev.tx_dropped"] - sent_again)


@contextmanager
def gro(pair: Pair) -> Iterator[None]:
    """dut0 has NAPI without a native program."""
    run_ethtool(pair.dut, "-K", "dut0", "gro", "on")
    try:
        yield
    finally:
        run_ethtool(pair.dut, "-K", "dut0", "gro", "off")


@contextmanager
def threaded_napi(pair: Pair) -> Iterator[None]:
    """dut0 is polled by a kernel thread; `ip netns exec` shows the namespace's own sysfs."""
    setting = ["ip", "netns", "exec", pair.dut, "sh", "-c", 'echo "$0" >/sys/class/net/dut0/threaded']
    with gro(pair):
        run(*setting, "1")
        try:
            yield
        finally:
            run(*setting, "0")


def assert_all_seen(dut: Agent, tester: Agent, action: str) -> None:
    """The program saw every accepted frame, and returned one action."""
    moved = dut.moved()
    assert accepted(tester) > 0
    assert total(moved, "xdp_prog.", ".packets") == accepted(tester)
    assert total(moved, "xdp_prog.", f".{action}.packets") == accepted(tester)


def assert_all_back(dut: Agent, tester: Agent) -> None:
    """Every forwarded frame came back, or is in the counter of those that found the tester's ring full."""
    forwarded = total(dut.moved(), "xdp_prog.", ".packets")
    moved = dut.moved()
    lost = moved["netdev.tx_dropped"] + total(moved, "ethtool.rx_queue_", "_drops")
    assert total(tester.moved(), "xdp_prog.", ".XDP_DROP.packets") == forwarded - lost


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("case", SINKS)
def test_sink_sees_every_accepted_frame(pair: Pair, case: str, generator: str) -> None:
    dut, tester = run_trial(pair, measure_spec(case), generate_spec(pair, generator=generator))
    assert_all_seen(dut, tester, SINKS[case])
    assert total(dut.moved(), "ethtool.rx_queue_", "_xdp_packets") == accepted(tester)


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("case", FORWARDERS)
def test_forwarded_frames_come_back(pair: Pair, case: str, generator: str) -> None:
    dut, tester = run_trial(pair, measure_spec(case, "forward"), generate_spec(pair, generator=generator))
    assert_all_seen(dut, tester, FORWARDERS[case])
    assert total(dut.moved(), "ethtool.rx_queue_", "_xdp_packets") == accepted(tester)
    assert_all_back(dut, tester)


@pytest.mark.parametrize("case", [*SINKS, *FORWARDERS])
def test_skb_mode_sees_every_accepted_frame(pair: Pair, case: str) -> None:
    role = "sink" if case in SINKS else "forward"
    action = {**SINKS, **FORWARDERS}[case]
    tester_line = generate_spec(pair, generator="af-packet", attach_mode="skb")
    dut, tester = run_trial(pair, measure_spec(case, role, attach_mode="skb"), tester_line)
    assert_all_seen(dut, tester, action)
    if role == "forward":
        assert_all_back(dut, tester)


@pytest.mark.parametrize("case", FORWARDERS)
def test_frames_forwarded_in_skb_mode_come_back_to_a_native_program(pair: Pair, case: str) -> None:
    tester_line = generate_spec(pair, generator="af-packet")
    dut, tester = run_trial(pair, measure_spec(case, "forward", attach_mode="skb"), tester_line)
    assert_all_seen(dut, tester, FORWARDERS[case])
    assert_all_back(dut, tester)
    assert total(tester.moved(), "xdp_prog.", ".XDP_DROP.packets") > 0


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("wakeup", ["irq", "need-wakeup", "poll", "busy-poll"])
def test_socket_accounts_for_every_redirected_frame(pair: Pair, wakeup: str, generator: str) -> None:
    spec = measure_spec("xsk.rxdrop", xsk=xsk_part(wakeup=wakeup))
    dut, tester = run_trial(pair, spec, generate_spec(pair, generator=generator))
    assert_all_seen(dut, tester, "XDP_REDIRECT")
    moved = dut.moved()
    received = total(moved, "xsk_app.", ".rx_packets")
    lost = total(moved, "xsk.", ".rx_dropped") + total(moved, "xsk.", ".rx_ring_full")
    assert received > 0
    assert received + lost == accepted(tester)
    assert total(moved, "xsk_app.", ".rx_bytes") == received * 60


def test_frames_on_a_queue_without_a_socket_are_counted_as_passed(pair: Pair) -> None:
    other = xsk_part(queues=[1])
    tester_line = generate_spec(pair, generator="af-packet", attach_mode="skb")
    dut, tester = run_trial(pair, measure_spec("xsk.rxdrop", xsk=other, attach_mode="skb"), tester_line)
    assert_all_seen(dut, tester, "XDP_PASS")  # veth's backlog path names queue 0 for every frame


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("count", [1, 63, 1000, 4097])
def test_count_is_exact(pair: Pair, generator: str, count: int) -> None:
    dut, tester = run_trial(
        pair, measure_spec("xdp.drop.no-touch", measure_s=0.1), generate_spec(pair, generator=generator, count=count)
    )
    assert total(tester.moved(), "generator.", ".packets") == count
    assert total(tester.moved(), "generator.", ".bytes") == count * 60
    assert total(dut.moved(), "xdp_prog.", ".XDP_DROP.packets") == count


@pytest.mark.parametrize("generator", GENERATORS)
def test_count_is_shared_among_cpus(pair: Pair, generator: str) -> None:
    line = generate_spec(pair, generator=generator, count=1001, cpus=[0, 1])
    dut, tester = run_trial(pair, measure_spec("xdp.drop.no-touch", measure_s=0.1), line)
    moved = tester.moved()
    assert (moved["generator.cpu0.packets"], moved["generator.cpu1.packets"]) == (501, 500)
    assert total(dut.moved(), "xdp_prog.", ".XDP_DROP.packets") == 1001


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("frame_len", [61, 590, 1514])
def test_bytes_are_those_of_the_frames(pair: Pair, generator: str, frame_len: int) -> None:
    line = generate_spec(pair, generator=generator, count=100, frame_len=frame_len)
    dut, tester = run_trial(pair, measure_spec("xdp.drop.read-data", measure_s=0.1), line)
    # veth leaves the header out of what came to it as an skb.
    seen_len = frame_len - (14 if generator == "af-packet" else 0)
    assert total(dut.moved(), "ethtool.rx_queue_", "_xdp_bytes") == 100 * seen_len
    assert total(tester.moved(), "generator.", ".bytes") == 100 * frame_len


def test_live_frames_reach_skb_mode_where_gro_gives_the_port_napi(pair: Pair) -> None:
    with gro(pair):
        dut, tester = run_trial(pair, measure_spec("xdp.drop.no-touch", attach_mode="skb"), generate_spec(pair))
    assert_all_seen(dut, tester, "XDP_DROP")


@pytest.mark.parametrize("case", ["xdp.drop.no-touch", "xdp.tx.swap-macs", "xdp.redirect-map.swap-macs"])
@pytest.mark.parametrize("generator", GENERATORS)
def test_frames_lost_in_a_full_ring_are_accounted_for(pair: Pair, generator: str, case: str) -> None:
    # With a thread in place of the softirq that follows each batch, the sender overruns the ring, unless the thread has
    # a CPU of its own. One CPU sends: on one queue veth's xdp_xmit counters lose additions of two.
    role = "sink" if case in SINKS else "forward"
    line = generate_spec(pair, generator=generator, batch=256)
    refused = 0
    with threaded_napi(pair):
        for _ in range(5):
            dut, tester = run_trial(pair, measure_spec(case, role), line)
            assert_all_seen(dut, tester, {**SINKS, **FORWARDERS}[case])
            if role == "forward":
                assert_all_back(dut, tester)
            refused = tester.moved()["netdev.tx_dropped"]
            if generator == "live-frames":
                assert refused == total(tester.moved(), "ethtool.tx_queue_", "_xdp_xmit_errors")
            if refused:
                break
    assert refused > 0, "the ring was never full, so this proves nothing"

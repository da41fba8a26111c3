# SPDX-License-Identifier: GPL-2.0-or-later
"""Loads of the agent: a rate that is kept, frames that wait for those before them, and frames of more than a page."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_lab import CPU_PACKETS, Agent, Pair, generate_spec, make_pair, measure_spec, run, run_trial, total

pytestmark = pytest.mark.netns

PACKETS = f"generator.cpu{CPU_PACKETS}.packets"
DUE = f"generator.cpu{CPU_PACKETS}.due"
LATE_NS = f"generator.cpu{CPU_PACKETS}.late_ns"
TIMEOUTS = f"generator.cpu{CPU_PACKETS}.timeouts"
GENERATORS = ("live-frames", "af-packet")
MORE_THAN_ANY_PPS = 1_000_000_000


@pytest.fixture(scope="module")
def pair(agent: Path, root_user: None) -> Iterator[Pair]:
    with make_pair(agent) as made:
        yield made


def best_share(tester: Agent) -> float:
    """Of all readings in the second half of the trial, the best share of what was due that was sent."""
    counters = [line["counters"] for line in tester.samples("measure")]
    shares: list[float] = [one[PACKETS] / one[DUE] for one in counters[len(counters) // 2 :] if one.get(DUE)]
    return max(shares)


def dropped(dut: Agent) -> int:
    return total(dut.moved(), "xdp_prog.", ".XDP_DROP.packets")


@pytest.mark.parametrize("generator", GENERATORS)
def test_frames_are_sent_when_they_are_due(pair: Pair, generator: str) -> None:
    spec = generate_spec(pair, generator=generator, rate_pps=2000)
    dut, tester = run_trial(pair, measure_spec("xdp.drop.no-touch"), spec)
    moved = tester.moved()
    assert dropped(dut) == moved[PACKETS] > 0
    assert best_share(tester) > 0.99
    # One that saw the time just before it was told to stop may send what was due by then.
    assert moved[PACKETS] <= moved[DUE] + 2000
    assert tester.edge("end")[LATE_NS] > 0
    ready = next(line for line in tester.lines if "ready" in line)
    assert (ready["generator"]["rate_pps"], ready["generator"]["closed_loop"]) == (2000, 0)


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_rate_that_no_generator_keeps_falls_behind(pair: Pair, generator: str) -> None:
    spec = generate_spec(pair, generator=generator, rate_pps=MORE_THAN_ANY_PPS)
    dut, tester = run_trial(pair, measure_spec("xdp.drop.no-touch", measure_s=0.1), spec)
    moved = tester.moved()
    assert 0 < dropped(dut) <= moved[PACKETS] < moved[DUE] / 2
    assert best_share(tester) < 0.5


def test_a_rate_is_shared_among_threads(pair: Pair) -> None:
    if CPU_PACKETS == 0:
        pytest.skip("one CPU: there is none for a second thread")
    spec = generate_spec(pair, generator="af-packet", cpus=[0, CPU_PACKETS], rate_pps=10_000, count=200)
    _, tester = run_trial(pair, measure_spec("xdp.drop.no-touch", measure_s=0.1), spec)
    moved = tester.moved()
    assert [moved[f"generator.cpu{cpu}.packets"] for cpu in (0, CPU_PACKETS)] == [100, 100]


def test_a_load_without_a_rate_owes_nothing(pair: Pair) -> None:
    _, tester = run_trial(pair, measure_spec("xdp.drop.no-touch", measure_s=0.1), generate_spec(pair, count=1000))
    assert not {DUE, LATE_NS, TIMEOUTS} & tester.edge("end").keys()


@pytest.mark.parametrize("outstanding", [1, 64])
def test_a_closed_loop_sends_what_returned_allows(pair: Pair, outstanding: int) -> None:
    dut_spec = measure_spec("xdp.tx.swap-macs", "forward", measure_s=0.1)
    spec = generate_spec(pair, generator="af-packet", closed_loop=outstanding, count=5000)
    _, tester = run_trial(pair, dut_spec, spec)
    moved = tester.moved()
    assert total(moved, "xdp_prog.", ".XDP_DROP.packets") == moved[PACKETS] == 5000
    for line in tester.samples("measure"):
        returned = total(line["counters"], "xdp_prog.", ".XDP_DROP.packets")
        waited_for = outstanding * (1 + line["counters"][TIMEOUTS])
        assert line["counters"][PACKETS] <= returned + waited_for


def test_a_loop_that_nothing_returns_in_is_a_stall_and_goes_on(pair: Pair) -> None:
    spec = generate_spec(pair, generator="af-packet", closed_loop=8)
    dut, tester = run_trial(pair, measure_spec("xdp.drop.no-touch", measure_s=0.4), spec)
    moved = tester.moved()
    assert moved[TIMEOUTS] >= 2
    assert dropped(dut) == moved[PACKETS]
    assert 8 * moved[TIMEOUTS] <= moved[PACKETS] <= 8 * (moved[TIMEOUTS] + 1)


def test_frames_of_more_than_a_page_arrive_whole(agent: Path, root_user: None) -> None:
    with make_pair(agent) as wide:
        for netns, ifname in ((wide.dut, "dut0"), (wide.tester, "tester0")):
            run("ip", "-n", netns, "link", "set", ifname, "mtu", "9000")
        spec = generate_spec(wide, generator="af-packet", frame_len=9000, count=1000)
        dut, tester = run_trial(wide, measure_spec("xdp.drop.no-touch", attach_mode="skb", measure_s=0.1), spec)
    moved = dut.moved()
    assert dropped(dut) == tester.moved()[PACKETS] == 1000
    assert moved["netdev.rx_bytes"] == 1000 * 9000

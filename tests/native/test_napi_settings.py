# SPDX-License-Identifier: GPL-2.0-or-later
"""What busy polling sets on a port is put back at any end, and by the next agent where one was killed."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_lab import Line, Pair, make_pair, measure_spec, run, start_agent, xsk_part

pytestmark = pytest.mark.netns

DEFER, FLUSH = "napi_defer_hard_irqs", "gro_flush_timeout"


@pytest.fixture(scope="module")
def pair(agent: Path, root_user: None) -> Iterator[Pair]:
    with make_pair(agent) as made:
        yield made


def busy_poll_spec() -> Line:
    return measure_spec("xsk.rxdrop", xsk=xsk_part(wakeup="busy-poll", queues=[0]))


def read_settings(pair: Pair) -> list[int]:
    paths = [f"/sys/class/net/dut0/{name}" for name in (DEFER, FLUSH)]
    return [int(text) for text in run("ip", "netns", "exec", pair.dut, "cat", *paths).split()]


@pytest.fixture
def own_settings(pair: Pair) -> Iterator[list[int]]:
    """Settings of somebody who uses the port, other than the kernel's and ours."""
    for values in ((1, 10000), (0, 0)):
        for name, value in zip((DEFER, FLUSH), values, strict=True):
            where = f"/sys/class/net/dut0/{name}"
            run("ip", "netns", "exec", pair.dut, "sh", "-c", f"echo {value} >{where}")
        if values[0]:
            yield list(values)


def test_settings_of_busy_polling_are_told_and_put_back(pair: Pair, own_settings: list[int]) -> None:
    with start_agent(pair, pair.dut, busy_poll_spec()) as dut:
        assert dut.wait_for("ready")["napi"] == {DEFER: 2, FLUSH: 200000}
        assert read_settings(pair) == [2, 200000]
        dut.command("finish")
        assert dut.end() == 0
    assert read_settings(pair) == own_settings


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_puts_settings_back(pair: Pair, own_settings: list[int], number: signal.Signals) -> None:
    with start_agent(pair, pair.dut, busy_poll_spec()) as dut:
        dut.wait_for("ready")
        dut.process.send_signal(number)
        assert dut.end() == 1
    assert read_settings(pair) == own_settings


@pytest.mark.parametrize("mender", ["trial", "probe"])
def test_settings_of_a_killed_agent_are_put_back_by_the_next(pair: Pair, own_settings: list[int], mender: str) -> None:
    with start_agent(pair, pair.dut, busy_poll_spec()) as dut:
        dut.wait_for("ready")
        dut.process.kill()
        dut.process.wait()
    assert read_settings(pair) == [2, 200000]
    if mender == "probe":
        run("ip", "netns", "exec", pair.dut, str(pair.agent), "probe", "dut0")
    else:
        with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch")) as dut:
            dut.wait_for("ready")
    assert read_settings(pair) == own_settings


def test_settings_of_a_living_agent_are_left_alone(pair: Pair, own_settings: list[int]) -> None:
    with start_agent(pair, pair.dut, busy_poll_spec()) as dut:
        dut.wait_for("ready")
        run("ip", "netns", "exec", pair.dut, str(pair.agent), "probe", "dut0")
        assert read_settings(pair) == [2, 200000]


def test_what_somebody_set_meanwhile_stays(pair: Pair, own_settings: list[int]) -> None:
    with start_agent(pair, pair.dut, busy_poll_spec()) as dut:
        dut.wait_for("ready")
        run("ip", "netns", "exec", pair.dut, "sh", "-c", f"echo 77 >/sys/class/net/dut0/{FLUSH}")
        dut.command("finish")
        assert dut.end() == 0
    assert read_settings(pair) == [own_settings[0], 77]

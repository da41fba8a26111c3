# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdict, frame and counters of each program, run by the kernel on frames of our own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_lab import Agent, Pair, generate_spec, make_pair, measure_spec, run, start_agent, total, xsk_part

pytestmark = pytest.mark.netns

BPFTOOL = "/usr/sbin/bpftool"

DST, SRC = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
FRAME = DST + SRC + b"\x08\x00" + bytes(range(46))
SWAPPED = SRC + DST + FRAME[12:]

# Case, role, action that the kernel gets, the frame after it.
CASES = [
    ("xdp.drop.no-touch", "sink", "XDP_DROP", FRAME),
    ("xdp.drop.read-data", "sink", "XDP_DROP", FRAME),
    ("xdp.pass.no-touch", "sink", "XDP_PASS", FRAME),
    ("xdp.tx.swap-macs", "forward", "XDP_TX", SWAPPED),
    ("xdp.redirect.swap-macs", "forward", "XDP_REDIRECT", SWAPPED),
    ("xdp.redirect-map.swap-macs", "forward", "XDP_REDIRECT", SWAPPED),
    ("bare.drop", "sink", "XDP_DROP", FRAME),
    ("bare.tx.swap-macs", "forward", "XDP_TX", SWAPPED),
    ("bare.redirect-map.swap-macs", "forward", "XDP_REDIRECT", SWAPPED),
]
ACTIONS = ["XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT"]


@pytest.fixture(scope="module")
def pair(agent: Path, root_user: None) -> Iterator[Pair]:
    with make_pair(agent) as made:
        yield made


def run_program(prog_id: int, frame: bytes, tmp_path: Path, *, repeat: int = 1) -> tuple[int, bytes]:
    """What the program returns for a frame, and the frame after it."""
    data_in, data_out = tmp_path / "in", tmp_path / "out"
    data_in.write_bytes(frame)
    argv = [BPFTOOL, "-j", "prog", "run", "id", str(prog_id), "data_in", str(data_in), "data_out", str(data_out)]
    told: dict[str, Any] = json.loads(run(*argv, "repeat", str(repeat)))
    return told["retval"], data_out.read_bytes()


def finish(dut: Agent) -> None:
    dut.command("finish")
    assert dut.end() == 0


@pytest.mark.parametrize(("case", "role", "action", "after"), CASES)
def test_verdict_and_bytes(pair: Pair, tmp_path: Path, case: str, role: str, action: str, after: bytes) -> None:
    with start_agent(pair, pair.dut, measure_spec(case, role)) as dut:
        prog_id = dut.wait_for("ready")["attach"]["prog_id"]
        assert run_program(prog_id, FRAME, tmp_path) == (ACTIONS.index(action), after)
        finish(dut)


@pytest.mark.parametrize(("case", "role", "action", "after"), [case for case in CASES if "bare" not in case[0]])
def test_packets_are_counted(pair: Pair, tmp_path: Path, case: str, role: str, action: str, after: bytes) -> None:
    with start_agent(pair, pair.dut, measure_spec(case, role)) as dut:
        prog_id = dut.wait_for("ready")["attach"]["prog_id"]
        run_program(prog_id, FRAME, tmp_path, repeat=1000)
        finish(dut)
    moved = dut.moved()
    assert total(moved, "xdp_prog.", f".rxq0.{action}.packets") == 1000
    assert total(moved, "xdp_prog.", ".packets") == 1000


def test_queue_with_a_socket_is_redirected_and_one_without_is_passed(pair: Pair, tmp_path: Path) -> None:
    for queue, action in ((0, "XDP_REDIRECT"), (1, "XDP_PASS")):
        with start_agent(pair, pair.dut, measure_spec("xsk.rxdrop", xsk=xsk_part(queues=[queue]))) as dut:
            prog_id = dut.wait_for("ready")["attach"]["prog_id"]
            assert run_program(prog_id, FRAME, tmp_path) == (ACTIONS.index(action), FRAME)
            finish(dut)
        assert total(dut.moved(), "xdp_prog.", f".{action}.packets") == 1


def test_redirect_to_a_port_that_is_gone_is_aborted_and_counted(agent: Path, root_user: None, tmp_path: Path) -> None:
    with make_pair(agent) as pair:
        run("ip", "-n", pair.dut, "link", "add", "out0", "type", "veth", "peer", "name", "out1")
        spec = measure_spec("xdp.redirect-map.swap-macs", "forward", egress_ifname="out0")
        with start_agent(pair, pair.dut, spec) as dut:
            prog_id = dut.wait_for("ready")["attach"]["prog_id"]
            run("ip", "-n", pair.dut, "link", "del", "out0")
            assert run_program(prog_id, FRAME, tmp_path)[0] == ACTIONS.index("XDP_ABORTED")
            finish(dut)
        assert total(dut.moved(), "xdp_prog.", ".XDP_ABORTED.packets") == 1


def test_returning_frames_are_dropped_and_counted(pair: Pair, tmp_path: Path) -> None:
    with start_agent(pair, pair.tester, generate_spec(pair)) as tester:
        prog_id = tester.wait_for("ready")["attach"]["prog_id"]
        assert run_program(prog_id, FRAME, tmp_path) == (ACTIONS.index("XDP_DROP"), FRAME)
        finish(tester)
    assert total(tester.moved(), "xdp_prog.", ".XDP_DROP.packets") == 1

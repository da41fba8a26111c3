# SPDX-License-Identifier: GPL-2.0-or-later
"""AF_XDP applications: every packet is accounted for, in each way of waking and each layout of memory."""

import json
import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agent_lab import (
    CPU_PACKETS,
    CPU_SAMPLER,
    Agent,
    Line,
    Pair,
    generate_spec,
    make_pair,
    measure_spec,
    run,
    run_ethtool,
    run_transmit,
    run_trial,
    start_agent,
    total,
    xsk_part,
)

pytestmark = pytest.mark.netns

WAKEUPS = ("irq", "need-wakeup", "poll", "busy-poll")
RECEIVERS = ("xsk.rxdrop", "xsk.rxdrop.swap-macs")
COUNT = 3000
# Sizes and layouts that differ from the usual, each by itself.
LAYOUTS: dict[str, Line] = {
    "large frames": {"frame_size": 4096, "frames": 1024},
    "unaligned": {"unaligned": True, "frame_size": 3008},
    "shared": {"shared_umem": True},
    "four sockets": {"shared_umem": True, "sockets": 4, "frames": 512},
    "two threads": {"app_cpus": [CPU_SAMPLER, CPU_PACKETS]},
    "smallest rings": {"ring_rx": 64, "ring_tx": 64, "ring_fill": 64, "ring_completion": 64, "frames": 128},
    "odd batch": {"batch": 7},
    "batch of a ring": {"batch": 2048},
}
# What becomes of a packet while a socket is bound.
BESIDE = {
    "xdpxsk.drop.no-touch": "XDP_DROP",
    "xdpxsk.drop.swap-macs": "XDP_DROP",
    "xdpxsk.pass.swap-macs": "XDP_PASS",
    "xdpxsk.tx.swap-macs": "XDP_TX",
}
# Runs in a namespace: sends frames given in hexadecimal, and prints as many as it is told to, of those that come.
TALK = """
import json, socket, sys
ifname, frames, count = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as port:
    port.bind((ifname, 0))
    port.settimeout(10)
    print("ready", flush=True)
    for frame in frames:
        port.send(bytes.fromhex(frame))
    came = []
    while len(came) < count:
        frame, (_, _, kind, *_) = port.recvfrom(9216)
        if kind != socket.PACKET_OUTGOING:
            came.append(frame.hex())
    print(json.dumps(came))
"""


@pytest.fixture(scope="module")
def pair(agent: Path, root_user: None) -> Iterator[Pair]:
    with make_pair(agent) as made:
        yield made


def set_mtu(pair: Pair, size: int) -> None:
    for netns, ifname in ((pair.dut, "dut0"), (pair.tester, "tester0")):
        run("ip", "-n", netns, "link", "set", ifname, "mtu", str(size))


@contextmanager
def mtu(pair: Pair, size: int) -> Iterator[None]:
    """Both ports at another MTU."""
    set_mtu(pair, size)
    try:
        yield
    finally:
        set_mtu(pair, 1500)


def receive_spec(case: str, **changes: Any) -> Line:
    return measure_spec(case, settle_s=0, measure_s=0.05, xsk=xsk_part(**changes))


def forward_spec(**changes: Any) -> Line:
    return measure_spec("xsk.l2fwd.swap-macs", "forward", settle_s=0, measure_s=0.05, xsk=xsk_part(**changes))


def transmit_spec(pair: Pair, *, count: int = COUNT, frame_len: int = 60, flows: int = 1, **changes: Any) -> Line:
    frame = {"dst_mac": pair.tester_mac, "src_mac": pair.dut_mac, "frame_len": frame_len, "flows": flows}
    spec = measure_spec("xsk.txonly", "transmit", settle_s=0, measure_s=0.05, xsk=xsk_part(**changes))
    return spec | {"count": count, "frame": frame}


def assert_all_received(dut: Agent, tester: Agent, *, frame_len: int = 60) -> int:
    """Every frame that was redirected is the application's, or a loss that the socket counted; how many it got."""
    moved = dut.moved()
    received = total(moved, "xsk_app.", ".rx_packets")
    lost = total(moved, "xsk.", ".rx_dropped") + total(moved, "xsk.", ".rx_ring_full")
    redirected = total(moved, "xdp_prog.", ".XDP_REDIRECT.packets")
    assert redirected == total(tester.moved(), "generator.cpu", ".packets") - tester.moved()["netdev.tx_dropped"] > 0
    assert received + lost == redirected
    assert total(moved, "xsk_app.", ".rx_bytes") == received * frame_len
    return received


def assert_all_sent(dut: Agent, tester: Agent, *, frame_len: int = 60) -> int:
    """Every frame that was handed over came to the tester's program, or found its ring full; how many they were."""
    moved = dut.moved()
    sent = total(moved, "xsk_app.", ".tx_packets")
    assert total(moved, "xsk_app.", ".tx_bytes") == sent * frame_len
    assert total(moved, "xsk.", ".tx_invalid_descs") == 0
    assert total(tester.moved(), "xdp_prog.", ".XDP_DROP.packets") == sent - moved["netdev.tx_dropped"]
    for name in (name for name in moved if name.startswith("xsk_rings.") and name.endswith(".tx_producer")):
        assert moved[name] == moved[name.replace("producer", "consumer")]
    return sent


@pytest.mark.parametrize("wakeup", WAKEUPS)
@pytest.mark.parametrize("case", RECEIVERS)
def test_receiver_accounts_for_every_frame(pair: Pair, case: str, wakeup: str) -> None:
    spec = receive_spec(case, wakeup=wakeup)
    dut, tester = run_trial(pair, spec, generate_spec(pair, count=COUNT, frame_len=61))
    assert assert_all_received(dut, tester, frame_len=61) > 0
    assert "xsk_rings.q0.tx_producer" not in dut.edge("end")


@pytest.mark.parametrize("wakeup", WAKEUPS)
def test_forwarder_accounts_for_every_frame(pair: Pair, wakeup: str) -> None:
    dut, tester = run_trial(pair, forward_spec(wakeup=wakeup), generate_spec(pair, count=COUNT))
    assert assert_all_received(dut, tester) == assert_all_sent(dut, tester) > 0


@pytest.mark.parametrize("flows", [1, 3])
@pytest.mark.parametrize("wakeup", WAKEUPS)
def test_sender_accounts_for_every_frame(pair: Pair, wakeup: str, flows: int) -> None:
    dut, tester = run_transmit(pair, transmit_spec(pair, wakeup=wakeup, flows=flows, frame_len=61))
    assert assert_all_sent(dut, tester, frame_len=61) == COUNT
    assert total(dut.moved(), "xsk_app.", ".completions") == COUNT
    assert [line for line in dut.lines if "stopped" in line] == [{"stopped": True}]


def test_sender_without_a_count_sends_until_the_stop(pair: Pair) -> None:
    dut, tester = run_transmit(pair, transmit_spec(pair, count=0))
    assert assert_all_sent(dut, tester) == total(dut.moved(), "xsk_app.", ".completions") > 0


def test_stop_of_a_sender_with_a_packet_in_pieces_ends_though_the_port_is_down(pair: Pair) -> None:
    # A ring of 64 pieces ends within a packet of three.
    spec = transmit_spec(pair, count=0, frame_len=5000, frags=True, ring_tx=64)
    with mtu(pair, 9000), start_agent(pair, pair.dut, spec) as dut:
        dut.wait_for("ready")
        dut.command("go")
        dut.wait_for("measured")
        run("ip", "-n", pair.dut, "link", "set", "dut0", "down")
        try:
            dut.command("stop")
            assert dut.end() == 1
        finally:
            run("ip", "-n", pair.dut, "link", "set", "dut0", "up")
    error = dut.lines[-1]["error"]
    assert (error["step"], error["object"]) == ("send", "dut0 queue 0")
    assert "did not give back" in error["reason"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_loses_nothing_on_the_way_in(pair: Pair, layout: str) -> None:
    dut, tester = run_trial(pair, receive_spec("xsk.rxdrop", **LAYOUTS[layout]), generate_spec(pair, count=COUNT))
    assert assert_all_received(dut, tester) > 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_loses_nothing_there_and_back(pair: Pair, layout: str) -> None:
    dut, tester = run_trial(pair, forward_spec(**LAYOUTS[layout]), generate_spec(pair, count=COUNT))
    assert assert_all_received(dut, tester) == assert_all_sent(dut, tester) > 0


def test_sockets_of_a_queue_that_only_send_are_refused(pair: Pair) -> None:
    spec = transmit_spec(pair, shared_umem=True, sockets=2)
    with start_agent(pair, pair.dut, spec) as dut:
        assert dut.end() == 2
    assert dut.lines[-1]["error"]["step"] == "xsk.sockets"


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "four sockets"])
def test_layout_loses_nothing_on_the_way_out(pair: Pair, layout: str) -> None:
    dut, tester = run_transmit(pair, transmit_spec(pair, flows=3, **LAYOUTS[layout]))
    assert assert_all_sent(dut, tester) == COUNT


def test_sockets_of_a_queue_take_packets_in_turn(pair: Pair) -> None:
    spec = receive_spec("xsk.rxdrop", shared_umem=True, sockets=4, queues=[0, 1])
    dut, tester = run_trial(pair, spec, generate_spec(pair, count=1000))
    assert assert_all_received(dut, tester) == 1000
    moved = dut.moved()
    counts = {moved[f"xsk_app.q{queue}.s{n}.rx_packets"] for queue in (0, 1) for n in range(4)}
    assert counts == {0, 250}


@pytest.mark.parametrize("count", [1, 3, 63, 65])
@pytest.mark.parametrize("wakeup", WAKEUPS)
def test_frames_that_fill_no_batch_are_not_kept(pair: Pair, wakeup: str, count: int) -> None:
    dut, tester = run_trial(pair, forward_spec(wakeup=wakeup, batch=256), generate_spec(pair, count=count))
    assert assert_all_received(dut, tester) == assert_all_sent(dut, tester) == count


@pytest.mark.parametrize("outstanding", [1, 5])
@pytest.mark.parametrize("wakeup", WAKEUPS)
def test_closed_loop_goes_round(pair: Pair, wakeup: str, outstanding: int) -> None:
    # As few frames as there can be, so that each is needed again.
    spec = forward_spec(wakeup=wakeup, frames=64, ring_fill=64)
    tester_line = generate_spec(pair, generator="af-packet", count=500, closed_loop=outstanding, batch=1)
    dut, tester = run_trial(pair, spec, tester_line)
    assert assert_all_sent(dut, tester) == 500
    assert total(tester.moved(), "generator.", ".timeouts") == 0


@pytest.mark.parametrize("frame_len", [4096, 9000])
def test_packets_of_several_pieces_are_whole(pair: Pair, frame_len: int) -> None:
    tester_line = generate_spec(pair, generator="af-packet", count=500, frame_len=frame_len)
    with mtu(pair, 9000):
        dut, tester = run_trial(pair, forward_spec(frags=True), tester_line)
    received = assert_all_received(dut, tester, frame_len=frame_len)
    assert received == assert_all_sent(dut, tester, frame_len=frame_len) > 0
    assert total(dut.moved(), "xsk_rings.", ".rx_consumer") >= received * -(-frame_len // 2048)


@pytest.mark.parametrize("frame_len", [4096, 9000])
def test_packets_are_sent_in_several_pieces(pair: Pair, frame_len: int) -> None:
    with mtu(pair, 9000):
        spec = transmit_spec(pair, count=500, frame_len=frame_len, flows=3, frags=True)
        dut, tester = run_transmit(pair, spec, xdp={"frags": True})
    assert assert_all_sent(dut, tester, frame_len=frame_len) == 500
    assert total(dut.moved(), "xsk_app.", ".completions") == 500 * -(-frame_len // 2048)


@pytest.mark.parametrize("case", BESIDE)
def test_program_beside_a_socket_decides(pair: Pair, case: str) -> None:
    role = "forward" if ".tx." in case else "sink"
    spec = measure_spec(case, role, settle_s=0, measure_s=0.05, xsk=xsk_part())
    dut, tester = run_trial(pair, spec, generate_spec(pair, count=COUNT))
    moved = dut.moved()
    assert total(moved, "xdp_prog.", f".{BESIDE[case]}.packets") == COUNT
    assert total(moved, "xsk_app.", ".rx_packets") == 0
    assert total(moved, "xsk_app.", ".empty_polls") > 0
    if role == "forward":
        assert total(tester.moved(), "xdp_prog.", ".XDP_DROP.packets") == COUNT - moved["netdev.tx_dropped"]


def test_skb_mode_feeds_sockets(pair: Pair) -> None:
    spec = receive_spec("xsk.rxdrop", queues=[0]) | {"attach_mode": "skb"}
    tester_line = generate_spec(pair, generator="af-packet", count=COUNT)
    dut, tester = run_trial(pair, spec, tester_line)
    assert assert_all_received(dut, tester) > 0


def test_rings_are_filled_before_the_first_packet(pair: Pair) -> None:
    with start_agent(pair, pair.dut, transmit_spec(pair, frames=2048, ring_tx=512)) as dut:
        ready = dut.wait_for("ready")
        edge = dut.edge("start")
    # A quarter of the frames is for sending, as the TX ring holds no more.
    assert (edge["xsk_rings.q0.fill_producer"], edge["xsk_rings.q0.tx_producer"]) == (1536, 0)
    assert [ready["xsk"][0][f"ring_{name}"] for name in ("rx", "tx", "fill", "completion")] == [2048, 512, 2048, 2048]


def talk(netns: str, ifname: str, frames: list[str], count: int) -> list[str]:
    return ["ip", "netns", "exec", netns, sys.executable, "-c", TALK, ifname, json.dumps(frames), str(count)]


def swapped(frame: str) -> str:
    return frame[12:24] + frame[:12] + frame[24:]


@pytest.mark.parametrize("layout", ["aligned", "unaligned"])
def test_frames_come_back_swapped_and_otherwise_the_same(pair: Pair, layout: str) -> None:
    made = random.Random(1)
    frames = [made.randbytes(size).hex() for size in (60, 61, 64, 999, 1514)]
    # A group address would not come back: no port sends from one.
    frames = ["02" + frame[2:12] + "02" + frame[14:] for frame in frames]
    spec = forward_spec(**(LAYOUTS["unaligned"] if layout == "unaligned" else {})) | {"attach_mode": "skb"}
    with start_agent(pair, pair.dut, spec) as dut:
        dut.wait_for("ready")
        said = run(*talk(pair.tester, "tester0", frames, len(frames)))
    assert json.loads(said.splitlines()[1]) == [swapped(frame) for frame in frames]


def test_sender_takes_the_flows_in_turn(pair: Pair) -> None:
    with start_agent(pair, pair.dut, transmit_spec(pair, count=0, flows=3, queues=[0])) as dut:
        dut.wait_for("ready")
        dut.command("go")
        said = run(*talk(pair.tester, "tester0", [], 7))
    frames = [bytes.fromhex(frame) for frame in json.loads(said.splitlines()[1])]
    ports = [int.from_bytes(frame[34:36], "big") for frame in frames]
    first = ports[0] - 1024
    assert ports == [1024 + (first + i) % 3 for i in range(7)]
    assert {frame[:34] + frame[36:] for frame in frames} == {frames[0][:34] + frames[0][36:]}
    assert frames[0][:6].hex(":") == pair.tester_mac


@contextmanager
def huge_pages(count: int) -> Iterator[None]:
    """So many huge pages more, or none at all."""
    setting = Path("/proc/sys/vm/nr_hugepages")
    before = setting.read_text()
    setting.write_text(str(count))
    try:
        yield
    finally:
        setting.write_text(before)


def test_memory_of_huge_pages(pair: Pair) -> None:
    with huge_pages(8):
        spec = forward_spec(huge_pages=True, shared_umem=True, frames=512, queues=[0, 1])
        dut, tester = run_trial(pair, spec, generate_spec(pair, count=COUNT))
    assert assert_all_received(dut, tester) == assert_all_sent(dut, tester) > 0


ERRORS: dict[str, tuple[Line, tuple[str, str, str], str]] = {
    "zero-copy on veth": (
        {"bind_mode": "zero-copy"},
        ("dut0 queue 0", "bind", "Operation not supported"),
        "the driver of dut0 has no zero-copy here: set bind_mode copy",
    ),
    "a queue that is not there": (
        {"queues": [0, 5]},
        ("dut0 queue 5", "bind", "Invalid argument"),
        "dut0 has 2 queues, counted from 0: set queues, or see 'ethtool -l dut0'",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_bind_that_fails_says_what_would_mend_it(pair: Pair, name: str) -> None:
    changes, what, hint = ERRORS[name]
    with start_agent(pair, pair.dut, receive_spec("xsk.rxdrop", **changes)) as dut:
        error = dut.wait_for("error")["error"]
        assert dut.end() == 1
    assert ((error["object"], error["step"], error["reason"]), error["hint"]) == (what, hint)


def test_queue_that_cannot_send_is_an_error(pair: Pair) -> None:
    run_ethtool(pair.dut, "-L", "dut0", "tx", "1")
    try:
        with start_agent(pair, pair.dut, forward_spec()) as dut:
            error = dut.wait_for("error")["error"]
        with start_agent(pair, pair.dut, receive_spec("xsk.rxdrop")) as dut:
            dut.wait_for("ready")
    finally:
        run_ethtool(pair.dut, "-L", "dut0", "tx", "2")
    assert (error["step"], error["reason"]) == ("check", "queue 1 cannot send: the port has 1 transmit queues")
    assert error["hint"].startswith("ethtool -L dut0")


def test_missing_huge_pages_are_an_error_with_the_setting(pair: Pair) -> None:
    with huge_pages(0), start_agent(pair, pair.dut, receive_spec("xsk.rxdrop", huge_pages=True)) as dut:
        error = dut.wait_for("error")["error"]
    assert (error["object"], error["step"], error["reason"]) == ("dut0", "allocate UMEM", os.strerror(12))
    assert error["hint"] == "2 free huge pages of 2048 KiB are needed: sysctl -w vm.nr_hugepages=2"


@pytest.mark.parametrize(
    ("frame_len", "reason"),
    [
        (1515, "1515 is not at most 1514, the MTU of dut0 plus 14"),
        (4000, "4000 is not at most 2048, which is xsk.frame_size; xsk.frags takes several"),
    ],
)
def test_frames_that_cannot_be_sent_are_refused(pair: Pair, frame_len: int, reason: str) -> None:
    size = 9000 if frame_len == 4000 else 1500
    with mtu(pair, size), start_agent(pair, pair.dut, transmit_spec(pair, frame_len=frame_len)) as dut:
        error = dut.wait_for("error")["error"]
        assert dut.end() == 2
    assert (error["object"], error["step"], error["reason"]) == ("spec", "frame.frame_len", reason)

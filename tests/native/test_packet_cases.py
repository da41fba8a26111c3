# SPDX-License-Identifier: GPL-2.0-or-later
"""AF_PACKET rings, a UDP socket and TC: every packet is accounted for, and nothing stays behind."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from agent_lab import (
    CPU_SAMPLER,
    Agent,
    Line,
    Pair,
    generate_spec,
    make_pair,
    measure_spec,
    run,
    run_trial,
    start_agent,
    total,
)

pytestmark = pytest.mark.netns

VERSIONS = ("v2", "v3")
WAKEUPS = ("busy", "poll")


@pytest.fixture(scope="module")
def pair(agent: Path, root_user: None) -> Iterator[Pair]:
    with make_pair(agent) as made:
        yield made


def packet_part(**changes: Any) -> Line:
    """The `packet` part of a spec: a ring of 2 MiB."""
    return {
        "block_size": 65536,
        "blocks": 32,
        "frame_size": 2048,
        "batch": 64,
        "app_cpu": CPU_SAMPLER,
        "wakeup": "poll",
        **changes,
    }


def from_ring(pair: Pair, **changes: Any) -> Line:
    """A generator that reaches a port without NAPI, and a count that needs no time."""
    return generate_spec(pair, **{"generator": "af-packet", "count": 20000, **changes})


def accepted(tester: Agent) -> int:
    """Frames that dut0 got: the port's own account, as no program sees them."""
    moved = tester.moved()
    return total(moved, "generator.cpu", ".packets")


def assert_all_received(dut: Agent, tester: Agent) -> int:
    """Every frame that reached the port is the application's, or a drop that the kernel counted."""
    moved = dut.moved()
    assert moved["netdev.rx_packets"] + moved["netdev.rx_dropped"] == accepted(tester) > 0
    assert moved["pkt.tp_packets"] == moved["netdev.rx_packets"]
    assert moved["pkt_app.rx_packets"] == moved["pkt.tp_packets"] - moved["pkt.tp_drops"]
    assert moved["pkt_app.rx_bytes"] == 60 * moved["pkt_app.rx_packets"]
    return moved["pkt_app.rx_packets"]


@pytest.mark.parametrize("wakeup", WAKEUPS)
@pytest.mark.parametrize("version", VERSIONS)
def test_packet_ring_accounts_for_every_frame(pair: Pair, version: str, wakeup: str) -> None:
    spec = measure_spec(f"pkt-{version}.rxdrop", packet=packet_part(wakeup=wakeup), measure_s=0.1)
    dut, tester = run_trial(pair, spec, from_ring(pair))
    assert assert_all_received(dut, tester) > 0


@pytest.mark.parametrize("wakeup", WAKEUPS)
@pytest.mark.parametrize("version", VERSIONS)
def test_forwarded_frames_come_back_swapped(pair: Pair, version: str, wakeup: str) -> None:
    spec = measure_spec(f"pkt-{version}.l2fwd", "forward", packet=packet_part(wakeup=wakeup), measure_s=0.1)
    dut, tester = run_trial(pair, spec, from_ring(pair))
    received = assert_all_received(dut, tester)
    assert dut.moved()["pkt_app.tx_packets"] == received
    # veth counts as dropped what the tester's ring had no room for; the rest is with the tester's program.
    lost = dut.moved()["netdev.tx_dropped"]
    assert total(tester.moved(), "xdp_prog.", ".XDP_DROP.packets") == received - lost


def sending(pair: Pair, version: str, *, count: int, frame_len: int = 60, flows: int = 1, **changes: Any) -> Line:
    """A spec for dut0 that sends so many frames to tester0."""
    frame = {"dst_mac": pair.tester_mac, "src_mac": pair.dut_mac, "frame_len": frame_len, "flows": flows}
    return measure_spec(
        f"pkt-{version}.txonly",
        "transmit",
        packet=packet_part(**changes),
        measure_s=0.1,
        count=count,
        frame=frame,
    )


def run_transmit(pair: Pair, dut_line: Line) -> tuple[Agent, Agent]:
    """A whole trial in which dut0 sends and tester0 drops."""
    with ExitStack() as stack:
        tester_line = measure_spec("xdp.drop.no-touch", ifname="tester0", measure_s=0.1)
        tester = stack.enter_context(start_agent(pair, pair.tester, tester_line))
        tester.wait_for("ready")
        dut = stack.enter_context(start_agent(pair, pair.dut, dut_line))
        dut.wait_for("ready")
        tester.command("go")
        dut.command("go")
        dut.wait_for("measured")
        dut.command("stop")
        dut.wait_for("drained")
        tester.wait_for("measured")
        tester.command("stop")
        tester.wait_for("drained")
        tester.command("finish")
        dut.command("finish")
        assert tester.end() == 0, tester.lines[-1]
        assert dut.end() == 0, dut.lines[-1]
        return dut, tester


def assert_all_sent(dut: Agent, tester: Agent) -> int:
    """What the application sent is what the tester's program saw, or a drop of veth that was not sent again."""
    moved = dut.moved()
    sent = moved["pkt_app.tx_packets"]
    lost = max(0, moved["netdev.tx_dropped"] - moved["pkt_app.tx_errors"])
    assert total(tester.moved(), "xdp_prog.", ".XDP_DROP.packets") == sent - lost
    return sent


@pytest.mark.parametrize("wakeup", WAKEUPS)
@pytest.mark.parametrize("count", [1, 63, 5000])
@pytest.mark.parametrize("version", VERSIONS)
def test_count_of_sent_frames_is_exact(pair: Pair, version: str, count: int, wakeup: str) -> None:
    dut, tester = run_transmit(pair, sending(pair, version, count=count, wakeup=wakeup, frame_len=61, flows=3))
    assert assert_all_sent(dut, tester) == count
    assert [line for line in dut.lines if "stopped" in line] == [{"stopped": True}]
    assert "pkt_app.rx_packets" not in dut.edge("end")


@pytest.mark.parametrize("bypass", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_frames_that_are_sent_until_the_stop_all_arrive(pair: Pair, version: str, bypass: bool) -> None:
    dut, tester = run_transmit(pair, sending(pair, version, count=0, bypass=bypass))
    assert assert_all_sent(dut, tester) > 0
    (ready,) = (line for line in dut.lines if "ready" in line)
    assert ready["packet"]["transmit"]["bypass"] is bypass
    assert ready["packet"]["transmit"]["version"] == int(version[1])


def udp_spec(**changes: Any) -> Line:
    """A UDP socket on dut0, at the discard port."""
    return measure_spec("udp.rxdrop", udp={"app_cpu": CPU_SAMPLER, "batch": 64, "port": 9}, measure_s=0.1, **changes)


def addresses(pair: Pair) -> list[str]:
    """The IPv4 addresses of dut0, with the length of the prefix."""
    (link,) = json.loads(run("ip", "-n", pair.dut, "-4", "-j", "address", "show", "dev", "dut0")) or [{}]
    return [f"{info['local']}/{info['prefixlen']}" for info in link.get("addr_info", [])]


def test_udp_socket_accounts_for_every_frame(pair: Pair) -> None:
    dut, tester = run_trial(pair, udp_spec(), from_ring(pair))
    moved = dut.moved()
    assert moved["udp_app.rx_packets"] > 0
    assert moved["udp_app.rx_packets"] + moved["udp.drops"] == moved["netdev.rx_packets"] > 0
    assert moved["netdev.rx_packets"] + moved["netdev.rx_dropped"] == accepted(tester)
    assert moved["snmp.Udp.RcvbufErrors"] == moved["udp.drops"]
    assert moved["snmp.Udp.InDatagrams"] == moved["udp_app.rx_packets"]
    assert moved["udp_app.rx_bytes"] == 18 * moved["udp_app.rx_packets"]


def test_address_is_there_for_the_trial_alone(pair: Pair) -> None:
    with start_agent(pair, pair.dut, udp_spec()) as dut:
        udp = dut.wait_for("ready")["udp"]
        assert (udp["address"], udp["port"], udp["address_added"]) == ("198.18.0.2", 9, True)
        assert addresses(pair) == ["198.18.0.2/30"]
        dut.terminate()
        assert dut.end() == 1
    assert addresses(pair) == []


def test_address_of_a_killed_agent_expires_and_is_taken_over(pair: Pair) -> None:
    with start_agent(pair, pair.dut, udp_spec()) as dut:
        dut.wait_for("ready")
        dut.process.kill()
        dut.process.wait()
    (link,) = json.loads(run("ip", "-n", pair.dut, "-4", "-j", "address", "show", "dev", "dut0"))
    assert link["addr_info"][0]["valid_life_time"] <= 302
    test_address_is_there_for_the_trial_alone(pair)


def test_address_of_somebody_is_left_alone(pair: Pair) -> None:
    run("ip", "-n", pair.dut, "address", "add", "198.18.0.2/24", "dev", "dut0")
    try:
        dut, _ = run_trial(pair, udp_spec(), from_ring(pair, count=100))
        assert dut.moved()["udp_app.rx_packets"] == 100
        assert addresses(pair) == ["198.18.0.2/24"]
    finally:
        run("ip", "-n", pair.dut, "address", "del", "198.18.0.2/24", "dev", "dut0")


TC_CASES = {
    "tc.drop.no-touch": ("sink", "TC_ACT_SHOT"),
    "tc.redirect.swap-macs": ("forward", "TC_ACT_REDIRECT"),
}


def qdiscs(pair: Pair) -> list[str]:
    """The kinds of qdiscs on dut0."""
    return [qdisc["kind"] for qdisc in json.loads(run("tc", "-n", pair.dut, "-j", "qdisc", "show", "dev", "dut0"))]


@pytest.mark.parametrize("case", TC_CASES)
def test_tc_program_sees_every_frame(pair: Pair, case: str) -> None:
    role, action = TC_CASES[case]
    dut, tester = run_trial(pair, measure_spec(case, role, measure_s=0.1), from_ring(pair))
    moved = dut.moved()
    seen = total(moved, "tc_prog.", f".{action}.packets")
    assert seen == moved["netdev.rx_packets"] > 0
    assert seen == total(moved, "tc_prog.", ".packets")
    assert moved["netdev.rx_packets"] + moved["netdev.rx_dropped"] == accepted(tester)
    returned = total(tester.moved(), "xdp_prog.", ".XDP_DROP.packets")
    assert returned == (seen - moved["netdev.tx_dropped"] if role == "forward" else 0)
    assert "clsact" not in qdiscs(pair)


def test_tc_program_is_read_back(pair: Pair) -> None:
    with start_agent(pair, pair.dut, measure_spec("tc.drop.no-touch")) as dut:
        told = dut.wait_for("ready")["tc"]
        (shown,) = json.loads(run("tc", "-n", pair.dut, "-j", "filter", "show", "dev", "dut0", "ingress"))[1:]
        assert (shown["options"]["prog"]["id"], shown["options"]["prog"]["tag"]) == (told["prog_id"], told["tag"])
        dut.terminate()
        assert dut.end() == 1
    assert "clsact" not in qdiscs(pair)


def test_tc_program_of_a_killed_agent_is_taken_away_by_the_next(pair: Pair) -> None:
    for case, (role, _) in TC_CASES.items():
        with start_agent(pair, pair.dut, measure_spec(case, role)) as dut:
            dut.wait_for("ready")
            dut.process.kill()
            dut.process.wait()
        assert "clsact" in qdiscs(pair)
        run_trial(pair, measure_spec("tc.drop.no-touch", measure_s=0.1), from_ring(pair, count=10))
        assert "clsact" not in qdiscs(pair)


def test_tc_program_of_a_living_agent_is_left_alone(pair: Pair) -> None:
    with start_agent(pair, pair.dut, measure_spec("tc.drop.no-touch")) as first:
        first.wait_for("ready")
        with start_agent(pair, pair.dut, measure_spec("tc.drop.no-touch")) as second:
            assert second.end() == 1
        assert second.lines[-1]["error"]["reason"] == "another agent has a program at TC ingress"
        first.command("finish")
        assert first.end() == 0


def test_clsact_of_somebody_else_is_an_error(pair: Pair) -> None:
    run("tc", "-n", pair.dut, "qdisc", "add", "dev", "dut0", "clsact")
    try:
        with start_agent(pair, pair.dut, measure_spec("tc.drop.no-touch")) as dut:
            assert dut.end() == 1
        error = dut.lines[-1]["error"]
        assert (error["object"], error["step"], error["reason"]) == ("dut0", "add clsact", "File exists")
        assert error["hint"] == "somebody else's is there: 'tc qdisc del dev dut0 clsact'"
        assert "clsact" in qdiscs(pair)
    finally:
        run("tc", "-n", pair.dut, "qdisc", "del", "dev", "dut0", "clsact")


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_that_find_the_ring_full_are_counted(pair: Pair, version: str) -> None:
    tiny = packet_part(block_size=4096, blocks=2)
    for case, role in ((f"pkt-{version}.rxdrop", "sink"), (f"pkt-{version}.l2fwd", "forward")):
        dut, tester = run_trial(pair, measure_spec(case, role, packet=tiny, measure_s=0.1), from_ring(pair))
        assert_all_received(dut, tester)
        assert dut.moved()["pkt.tp_drops"] > 0
        if role == "forward":
            assert dut.moved()["pkt_app.tx_packets"] == dut.moved()["pkt_app.rx_packets"]


def test_frames_that_are_longer_than_a_slot_are_not_forwarded(pair: Pair) -> None:
    small = packet_part(frame_size=256)
    spec = measure_spec("pkt-v2.l2fwd", "forward", packet=small, measure_s=0.1)
    dut, tester = run_trial(pair, spec, from_ring(pair, frame_len=500, count=300))
    moved = dut.moved()
    assert moved["pkt_app.rx_packets"] == moved["pkt_app.tx_drops"] == 300
    assert moved["pkt_app.tx_packets"] == total(tester.moved(), "xdp_prog.", ".XDP_DROP.packets") == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"block_size": 1000}, "1000 is not a power of two from 4096 to 4194304"),
        ({"frame_size": 8192, "block_size": 4096}, "8192 is not at most packet.block_size"),
        ({"batch": 0}, "0 is not an integer from 1 to 256"),
        ({"timeout_ms": 21}, "21 is not an integer from 1 to 20"),
        ({"wakeup": "irq"}, '"irq" is not one of busy, poll'),
        ({"bypass": 1}, "1 is not true or false"),
        ({"queue": 0}, "unknown key here"),
    ],
)
def test_bad_packet_section_is_named(pair: Pair, change: Line, said: str) -> None:
    with start_agent(pair, pair.dut, measure_spec("pkt-v3.rxdrop", packet=packet_part(**change))) as dut:
        assert dut.end() == 2
    assert said in dut.lines[-1]["error"]["reason"]


def test_frame_that_no_slot_holds_is_an_error(pair: Pair) -> None:
    with start_agent(pair, pair.dut, sending(pair, "v2", count=1, frame_len=250, frame_size=256)) as dut:
        assert dut.end() == 2
    assert "250 is not at most" in dut.lines[-1]["error"]["reason"]


def test_program_on_the_port_is_not_part_of_the_case(pair: Pair) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch")) as other:
        other.wait_for("ready")
        with start_agent(pair, pair.dut, measure_spec("pkt-v2.rxdrop", packet=packet_part())) as dut:
            assert dut.end() == 1
    assert "is attached, and the case has none" in dut.lines[-1]["error"]["reason"]


def test_probe_tries_tc_and_leaves_nothing(pair: Pair) -> None:
    def can_tc() -> Line:
        told: Line = json.loads(run("ip", "netns", "exec", pair.dut, str(pair.agent), "probe", "dut0"))["can"]["tc"]
        return told

    assert can_tc() == {"ok": True}
    assert "clsact" not in qdiscs(pair)
    run("tc", "-n", pair.dut, "qdisc", "add", "dev", "dut0", "clsact")
    try:
        assert can_tc() == {"ok": False, "reason": "dut0: add clsact: File exists"}
    finally:
        run("tc", "-n", pair.dut, "qdisc", "del", "dev", "dut0", "clsact")


BPFTOOL = "/usr/sbin/bpftool"
DST, SRC = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
FRAME = DST + SRC + b"\x08\x00" + bytes(range(46))


@pytest.mark.parametrize(
    ("case", "retval", "after"),
    [("tc.drop.no-touch", 2, FRAME), ("tc.redirect.swap-macs", 7, SRC + DST + FRAME[12:])],  # TC_ACT_SHOT, _REDIRECT
)
def test_tc_program_returns_its_action_and_counts(
    pair: Pair, tmp_path: Path, case: str, retval: int, after: bytes
) -> None:
    role, action = TC_CASES[case]
    data_in, data_out = tmp_path / "in", tmp_path / "out"
    data_in.write_bytes(FRAME)
    with start_agent(pair, pair.dut, measure_spec(case, role)) as dut:
        prog_id = str(dut.wait_for("ready")["tc"]["prog_id"])
        argv = [BPFTOOL, "-j", "prog", "run", "id", prog_id, "data_in", str(data_in), "data_out", str(data_out)]
        assert json.loads(run(*argv))["retval"] == retval
        assert data_out.read_bytes() == after
        run(*argv, "repeat", "999")
        dut.command("finish")
        assert dut.end() == 0
    assert total(dut.moved(), "tc_prog.", f".{action}.packets") == 1000


def test_frame_beyond_the_mtu_is_an_error(pair: Pair) -> None:
    with start_agent(pair, pair.dut, sending(pair, "v3", count=1, frame_len=1515)) as dut:
        assert dut.end() == 2
    assert "1515 is not at most 1514" in dut.lines[-1]["error"]["reason"]


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_that_the_other_port_cannot_take_are_not_forwarded(pair: Pair, version: str) -> None:
    run("ip", "-n", pair.dut, "link", "add", "out0", "mtu", "1000", "type", "veth", "peer", "name", "out1")
    try:
        for end in ("out0", "out1"):
            run("ip", "-n", pair.dut, "link", "set", end, "up")
        for frame_len, name in ((1014, "tx_packets"), (1015, "tx_drops")):
            part = packet_part()
            spec = measure_spec(f"pkt-{version}.l2fwd", "forward", packet=part, egress_ifname="out0", measure_s=0.1)
            dut, _ = run_trial(pair, spec, from_ring(pair, frame_len=frame_len, count=300))
            moved = dut.moved()
            assert moved["pkt_app.rx_packets"] == moved[f"pkt_app.{name}"] == 300
            assert moved["egress_netdev.tx_packets"] == moved["pkt_app.tx_packets"]
    finally:
        run("ip", "-n", pair.dut, "link", "del", "out0")

# SPDX-License-Identifier: GPL-2.0-or-later
"""The works: program and application do the same to the same packets, and every packet is accounted for."""

import json
import random
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_lab import (
    Agent,
    Line,
    Pair,
    build_program,
    generate_spec,
    make_pair,
    measure_spec,
    run,
    run_trial,
    start_agent,
    total,
    xsk_part,
)
from conftest import ROOT

pytestmark = pytest.mark.netns

BPFTOOL = "/usr/sbin/bpftool"
ACTIONS = ["XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT"]
COUNT = 4000
FLOWS = 8
SERVICE = (198 << 24) | (18 << 16) | 2

WORKS: dict[str, Line] = {
    "mem": {"lines": 100, "seed": 1},
    "csum": {"iterations": 3},
    "fw": {"acl": 500, "flows": FLOWS, "seed": 1},
    "lb": {"sessions": 500, "backends": 7, "flows": FLOWS, "seed": 1},
    "lbfw": {"acl": 500, "sessions": 500, "backends": 7, "drop_share": 25, "flows": FLOWS, "seed": 1},
}
SINKS = ("mem", "csum", "fw")
FORWARDERS = ("mem", "csum", "lb", "lbfw")


@pytest.fixture(scope="module")
def pair(agent: Path, root_user: None) -> Iterator[Pair]:
    with make_pair(agent) as made:
        yield made


@pytest.fixture(scope="module")
def work_frames(agent: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_program("work_frames", tmp_path_factory.mktemp("work_frames"), "-O2", f"-I{ROOT}/native/build")


def work_spec(case: str, **changes: Any) -> Line:
    """The spec of a case with a work, measured for 0.1 s."""
    layer, op, work = case.split(".")
    role = "sink" if op in ("drop", "rxdrop") else "forward"
    parts = {"xsk": xsk_part()} if "xsk" in layer else {}
    return measure_spec(case, role, measure_s=0.1, work={**WORKS[work], **changes}, **parts)


def sending(pair: Pair, generator: str = "live-frames", *, flows: int = FLOWS, count: int = COUNT) -> Line:
    """A generator whose frames are all as new."""
    line = generate_spec(pair, generator=generator, flows=flows, count=count)
    line["frame"]["restore"] = True
    return line


# What a program and an application make of a frame.


def sum_words(data: bytes) -> int:
    """The Internet checksum's sum, folded: 0xffff for what has a good one."""
    words: tuple[int, ...] = struct.unpack(f"!{len(data) // 2}H", data)
    folded = sum(words)
    while folded >> 16:
        folded = (folded & 0xFFFF) + (folded >> 16)
    return folded


def datagram_sum(frame: bytes) -> int:
    """The same over the UDP datagram of a frame and its pseudo header."""
    return sum_words(frame[26:34] + struct.pack("!HH", 17, len(frame) - 34) + frame[34:])


def make_frame(
    sport: int,
    dport: int = 9,
    *,
    daddr: int = SERVICE,
    protocol: int = 17,
    head: int = 0x4500,
    frag: int = 0x4000,
    with_sum: bool = False,
) -> bytes:
    """An Ethernet frame of 60 bytes as the generator would send it, if nothing else is said."""
    payload = bytes(range(18))
    udp = struct.pack("!HHHH", sport, dport, 26, 0) + payload
    addresses = struct.pack("!II", SERVICE - 1, daddr)
    ip = struct.pack("!HHHHBBH", head, 46, 0, frag, 64, protocol, 0) + addresses
    ip = ip[:10] + struct.pack("!H", 0xFFFF ^ sum_words(ip)) + ip[12:]
    macs = bytes.fromhex("020000000001020000000002")
    frame = macs + b"\x08\x00" + ip + udp
    if not with_sum:
        return frame
    return frame[:40] + struct.pack("!H", (0xFFFF ^ datagram_sum(frame)) or 0xFFFF) + frame[42:]


def make_frames() -> list[bytes]:
    """The generator's flows and others, some for other services, some with a checksum, and what is no flow."""
    frames = [make_frame(1024 + flow, with_sum=bool(flow % 2)) for flow in range(2 * FLOWS)]
    frames += [make_frame(port, daddr=SERVICE + service) for service in (1, 7, 8) for port in (5, 6)]
    frames += [make_frame(1024, dport=10), make_frame(1024, protocol=6), make_frame(1024, protocol=1)]
    frames += [make_frame(1024, head=0x4600), make_frame(1024, frag=0x2000), make_frame(1024, frag=0x0010)]
    frames += [frames[0][:42], frames[0][:41], frames[0][:14], frames[0][:12] + b"\x86\xdd" + frames[0][14:]]
    frames += [make_frame(1024) + bytes(length) for length in (1, 2, 100)]
    random.Random(1).shuffle(frames)
    return frames * 2


def run_program(prog_id: int, frame: bytes, tmp_path: Path) -> tuple[str, bytes]:
    """What the kernel makes of a frame on CPU 0."""
    data_in, data_out = tmp_path / "in", tmp_path / "out"
    data_in.write_bytes(frame)
    argv = ["taskset", "-c", "0", BPFTOOL, "-j", "prog", "run", "id", str(prog_id)]
    told = json.loads(run(*argv, "data_in", str(data_in), "data_out", str(data_out)))
    return ACTIONS[told["retval"]], data_out.read_bytes()


def read_lines(prog_id: int) -> list[int]:
    """The packets of each line of a program's working set."""
    maps = json.loads(run(BPFTOOL, "-j", "prog", "show", "id", str(prog_id)))["map_ids"]
    names = {number: json.loads(run(BPFTOOL, "-j", "map", "show", "id", str(number)))["name"] for number in maps}
    (number,) = (number for number, name in names.items() if name == "lines")
    entries = json.loads(run(BPFTOOL, "-j", "map", "dump", "id", str(number)))
    return [int.from_bytes(bytes(int(byte, 16) for byte in entry["value"][:8]), "little") for entry in entries]


def run_application(work_frames: Path, spec: Line, frames: list[bytes]) -> tuple[list[tuple[bool, bytes]], list[int]]:
    """What an application makes of the frames, and the packets of each line of its working set."""
    argv = [str(work_frames), json.dumps(spec)]
    text = "".join(frame.hex() + "\n" for frame in frames)
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    *answers, lines = done.stdout.split("\n")[:-1]
    parsed = [(kept == "1", bytes.fromhex(frame)) for kept, frame in (answer.split() for answer in answers)]
    return parsed, [int(packets) for packets in lines.split()]


def swapped(frame: bytes) -> bytes:
    return frame[6:12] + frame[:6] + frame[12:]


@pytest.mark.parametrize(
    "case", ["xdp.drop.mem", "xdp.drop.csum", "xdp.tx.csum", "xdp.drop.fw", "xdp.tx.lb", "xdp.tx.lbfw"]
)
def test_program_and_application_do_the_same(pair: Pair, work_frames: Path, tmp_path: Path, case: str) -> None:
    frames = make_frames()
    spec = work_spec(case)
    ours, lines = run_application(work_frames, spec, frames)
    with start_agent(pair, pair.dut, spec) as dut:
        prog_id = dut.wait_for("ready")["attach"]["prog_id"]
        theirs = [run_program(prog_id, frame, tmp_path) for frame in frames]
        if lines:
            assert read_lines(prog_id) == lines
        dut.command("finish")
        assert dut.end() == 0
    kept_by_program = {"xdp.drop.fw": ("XDP_PASS",), "xdp.tx.lbfw": ("XDP_TX",)}.get(case, ("XDP_TX", "XDP_DROP"))
    for frame, (action, after), (kept, own_after) in zip(frames, theirs, ours, strict=True):
        assert kept == (action in kept_by_program), frame.hex()
        assert after == (swapped(own_after) if action == "XDP_TX" else own_after), frame.hex()
    if lines:
        assert sum(lines) == len(frames)
        assert sum(1 for packets in lines if packets) > 30


def test_balanced_frames_have_good_checksums_and_a_backend_for_each_flow(work_frames: Path) -> None:
    frames = make_frames()
    answers, _ = run_application(work_frames, work_spec("xdp.tx.lb"), frames)
    backends: dict[bytes, set[bytes]] = {}
    for frame, (kept, after) in zip(frames, answers, strict=True):
        if not kept:
            assert after == frame
            continue
        assert sum_words(after[14:34]) == 0xFFFF
        if frame[40:42] == b"\0\0":
            assert after[40:42] == b"\0\0"
        else:
            assert datagram_sum(after) == 0xFFFF
        assert after[30:32] == bytes([192, 168])
        backends.setdefault(frame[26:38], set()).add(after[30:34] + after[36:38])
    assert all(len(chosen) == 1 for chosen in backends.values())
    assert len({backend for chosen in backends.values() for backend in chosen}) > 5


def test_checksum_is_that_of_the_datagram(work_frames: Path) -> None:
    frames = [make_frame(1024 + flow, with_sum=bool(flow % 2)) for flow in range(8)]
    answers, _ = run_application(work_frames, work_spec("xdp.drop.csum"), frames)
    assert all(datagram_sum(after) == 0xFFFF for _, after in answers)


# Where every packet is.


def work_total(agent: Agent, name: str) -> int:
    return agent.moved()[f"work.{name}"]


def assert_work_done(dut: Agent, work: str, packets: int) -> None:
    """The work's own counters say that it was done for each packet."""
    if work == "mem":
        assert work_total(dut, "line_packets") == packets
    if work == "lb":
        assert work_total(dut, "new_sessions") == FLOWS
    if work == "lbfw":
        assert work_total(dut, "new_sessions") == FLOWS * 3 // 4
    if work in ("lb", "lbfw"):
        assert work_total(dut, "refused_sessions") == 0


@pytest.mark.parametrize("work", SINKS)
@pytest.mark.parametrize("layer", ["xdp", "xdpxsk"])
def test_program_drops_every_packet(pair: Pair, layer: str, work: str) -> None:
    dut, _ = run_trial(pair, work_spec(f"{layer}.drop.{work}"), sending(pair))
    assert total(dut.moved(), "xdp_prog.", ".XDP_DROP.packets") == COUNT
    assert total(dut.moved(), "xdp_prog.", ".packets") == COUNT
    assert_work_done(dut, work, COUNT)


def assert_back(dut: Agent, tester: Agent, sent: int) -> None:
    """All that was sent back arrived, but for what found the tester's ring full."""
    moved = dut.moved()
    lost = moved["netdev.tx_dropped"] + total(moved, "ethtool.rx_queue_", "_drops")
    # Of these, what the program was to drop, and what found no room in a socket.
    lost -= total(moved, "ethtool.rx_queue_", "_xdp_drops")
    lost -= total(moved, "xsk.", ".rx_dropped") + total(moved, "xsk.", ".rx_ring_full")
    assert total(tester.moved(), "xdp_prog.", ".XDP_DROP.packets") == sent - lost > 0


@pytest.mark.parametrize("work", FORWARDERS)
@pytest.mark.parametrize("layer", ["xdp", "xdpxsk"])
def test_program_sends_back_every_packet_but_those_it_has_to_drop(pair: Pair, layer: str, work: str) -> None:
    dut, tester = run_trial(pair, work_spec(f"{layer}.tx.{work}"), sending(pair))
    dropped = COUNT // 4 if work == "lbfw" else 0
    assert total(dut.moved(), "xdp_prog.", ".XDP_DROP.packets") == dropped
    assert total(dut.moved(), "xdp_prog.", ".XDP_TX.packets") == COUNT - dropped
    assert total(dut.moved(), "xdp_prog.", ".packets") == COUNT
    assert_back(dut, tester, COUNT - dropped)
    assert_work_done(dut, work, COUNT)


def redirected(dut: Agent) -> int:
    """Packets that the sockets took, of all that were redirected."""
    moved = dut.moved()
    received = total(moved, "xsk_app.", ".rx_packets")
    lost = total(moved, "xsk.", ".rx_dropped") + total(moved, "xsk.", ".rx_ring_full")
    assert received + lost == total(moved, "xdp_prog.", ".XDP_REDIRECT.packets")
    assert received > 0
    return received


@pytest.mark.parametrize("work", SINKS)
def test_application_works_on_every_packet_that_it_gets(pair: Pair, work: str) -> None:
    dut, _ = run_trial(pair, work_spec(f"xsk.rxdrop.{work}"), sending(pair))
    received = redirected(dut)
    assert total(dut.moved(), "xsk_app.", ".dropped") == (received if work == "fw" else 0)
    assert_work_done(dut, work, received)


@pytest.mark.parametrize("case", [*(f"xsk.l2fwd.{work}" for work in FORWARDERS), "xdpxsk.l2fwd.lbfw"])
def test_application_sends_back_every_packet_that_it_keeps(pair: Pair, case: str) -> None:
    # One at a time would do; so few at once find room in every ring, and shares are exact.
    line = sending(pair, "af-packet")
    line["batch"] = FLOWS
    dut, tester = run_trial(pair, work_spec(case), line)
    received = redirected(dut)
    moved = dut.moved()
    dropped_by_app = total(moved, "xsk_app.", ".dropped")
    dropped_by_program = total(moved, "xdp_prog.", ".XDP_DROP.packets")
    assert (
        received + dropped_by_program + total(moved, "xsk.", ".rx_dropped") + total(moved, "xsk.", ".rx_ring_full")
        == COUNT
    )
    assert dropped_by_program == (COUNT // 4 if case == "xdpxsk.l2fwd.lbfw" else 0)
    if case == "xsk.l2fwd.lbfw" and received == COUNT:
        assert dropped_by_app == COUNT // 4
    assert total(moved, "xsk_app.", ".tx_packets") == received - dropped_by_app
    assert_back(dut, tester, received - dropped_by_app)
    assert_work_done(dut, case.split(".")[-1], received)


@pytest.mark.parametrize("percent", [0, 1, 50, 99, 100])
def test_drop_share_is_exact(pair: Pair, percent: int) -> None:
    spec = work_spec("xdp.tx.lbfw", drop_share=percent, flows=100)
    dut, _ = run_trial(pair, spec, sending(pair, flows=100))
    assert total(dut.moved(), "xdp_prog.", ".XDP_DROP.packets") == COUNT * percent // 100
    assert total(dut.moved(), "xdp_prog.", ".packets") == COUNT


def test_flows_that_are_not_in_the_acl_pass(pair: Pair) -> None:
    dut, _ = run_trial(pair, work_spec("xdp.drop.fw", acl=6), sending(pair))
    assert total(dut.moved(), "xdp_prog.", ".XDP_DROP.packets") == COUNT * 6 // FLOWS
    assert total(dut.moved(), "xdp_prog.", ".XDP_PASS.packets") == COUNT * 2 // FLOWS


def test_tables_have_the_sizes_asked_for(pair: Pair) -> None:
    spec = work_spec("xdp.tx.lbfw", acl=20000, sessions=30000, flows=1000)
    with start_agent(pair, pair.dut, spec) as dut:
        ready = dut.wait_for("ready")
        work, prog_id = ready["work"], ready["attach"]["prog_id"]
        maps = json.loads(run(BPFTOOL, "-j", "prog", "show", "id", str(prog_id)))["map_ids"]
        dumps = {number: json.loads(run(BPFTOOL, "-j", "map", "dump", "id", str(number))) for number in maps}
        dut.command("finish")
        assert dut.end() == 0
    # 750 of the 1000 flows are not dropped, and their sessions begin with their first packets.
    assert (work["acl"], work["sessions"]) == (20000, 29250)
    assert work["maps"] == {"lines": None, "acl": 20000, "sessions": 30000}
    assert sorted(len(entries) for entries in dumps.values())[-2:] == [20000, 29250]


WRONG = [
    ("xdp.drop.mem", {"lines": 0}, "work.lines"),
    ("xdp.drop.mem", {"lines": 10_000_001}, "work.lines"),
    ("xdp.drop.mem", {"acl": 5}, "work.acl"),
    ("xdp.drop.csum", {"iterations": 51}, "work.iterations"),
    ("xdp.drop.csum", {"seed": 1}, "work.seed"),
    ("xdp.drop.fw", {"flows": 64513}, "work.flows"),
    ("xdp.tx.lb", {"backends": 129}, "work.backends"),
    ("xdp.tx.lb", {"sessions": 7}, "work.sessions"),
    ("xdp.tx.lbfw", {"drop_share": 101}, "work.drop_share"),
    ("xdp.tx.lbfw", {"acl": 1}, "work.acl"),
    ("xdp.tx.lbfw", {"sessions": 5}, "work.sessions"),
]


@pytest.mark.parametrize(("case", "changes", "step"), WRONG)
def test_wrong_work_is_named(pair: Pair, case: str, changes: Line, step: str) -> None:
    with start_agent(pair, pair.dut, work_spec(case, **changes)) as dut:
        assert dut.end() == 2
    error = dut.lines[-1]["error"]
    assert (error["object"], error["step"]) == ("spec", step)


def test_working_set_beyond_the_memory_is_refused(pair: Pair, tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 99999 kB\nMemAvailable: 63 kB\n")
    through = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /proc/meminfo && exec "$@"', str(meminfo)]
    for lines, status in ((1000, 0), (1025, 1)):
        with start_agent(pair, pair.dut, work_spec("xdp.drop.mem", lines=lines), *through) as dut:
            if status == 0:
                dut.wait_for("ready")
                dut.command("finish")
            assert dut.end() == status
    error = dut.lines[-1]["error"]
    assert (error["object"], error["step"], error["hint"]) == ("working set", "create", "set fewer lines")
    assert error["reason"] == "64 KiB are asked for, 63 KiB are available"


def test_threads_that_add_the_same_flows_agree(agent: Path, tmp_path: Path) -> None:
    program = build_program("flow_table_race", tmp_path, "-O2", f"-I{ROOT}/native/build")
    added, there, full, lost, entries = (int(word) for word in run(str(program)).split())
    assert (added, entries, lost) == (50_000, 50_000, 0)
    assert added + there + full == 4 * 60_000
    assert full == 4 * 10_000

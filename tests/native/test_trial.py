# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent's protocol: order, modes that are true, and an end that leaves nothing behind."""

import errno
import fcntl
import json
import random
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from agent_lab import (
    CPU_PACKETS,
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
    xsk_part,
)

pytestmark = pytest.mark.netns

BPFTOOL = "/usr/sbin/bpftool"


@pytest.fixture(scope="module")
def pair(agent: Path, root_user: None) -> Iterator[Pair]:
    with make_pair(agent) as made:
        yield made


def attached(pair: Pair) -> bool:
    """Whether dut0 has an XDP program."""
    return "xdp" in show_link(pair.dut, "dut0")


def wait_until_free(pair: Pair) -> None:
    """A killed process is reaped before the kernel has closed all it had open."""
    deadline = time.monotonic() + 5
    while attached(pair) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not attached(pair)


def error_of(agent: Agent) -> Line:
    """The error that ended an agent with status 1."""
    assert agent.end() == 1
    error: Line = agent.lines[-1]["error"]
    return error


def test_messages_come_in_the_order_of_the_protocol(pair: Pair) -> None:
    dut, tester = run_trial(pair, measure_spec("xdp.drop.no-touch"), generate_spec(pair))
    kinds = ("edge", "ready", "measured", "stopped", "drained", "done")

    def order(agent: Agent) -> list[str]:
        return [kind for line in agent.lines for kind in kinds if kind in line]

    assert order(dut) == ["edge", "ready", "measured", "drained", "edge", "done"]
    assert order(tester) == ["edge", "ready", "stopped", "edge", "done"]


def test_samples_are_numbered_monotonic_and_in_phases(pair: Pair) -> None:
    dut, _ = run_trial(pair, measure_spec("xdp.drop.no-touch"), generate_spec(pair))
    samples = [line for line in dut.lines if "sample" in line]
    phases = [sample["phase"] for sample in samples]
    assert [sample["sample"] for sample in samples] == list(range(len(samples)))
    assert phases == sorted(phases, key=["settle", "measure", "drain"].index)
    # 0.1 s of settling and 0.3 s of measuring every 0.05 s; both ends of the measurement are sampled.
    assert (phases.count("settle"), phases.count("measure")) == (2, 7)
    for before, after in zip(samples, samples[1:], strict=False):
        assert before["t0_ns"] <= before["t1_ns"] <= after["t0_ns"]
        assert all(after["counters"][name] >= value for name, value in before["counters"].items())


def test_what_is_attached_is_read_back(pair: Pair) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch")) as dut:
        attach = dut.wait_for("ready")["attach"]
        xdp = show_link(pair.dut, "dut0")["xdp"]
    assert (attach["ifname"], attach["attach_mode"]) == ("dut0", "native")
    assert (attach["prog_id"], attach["prog_tag"]) == (xdp["prog"]["id"], xdp["prog"]["tag"])
    assert xdp["mode"] == 1  # XDP_ATTACHED_DRV
    assert attach["xlated_len"] > 0


def test_zero_copy_on_veth_fails_at_bind(pair: Pair) -> None:
    spec = measure_spec("xsk.rxdrop", xsk=xsk_part(bind_mode="zero-copy"))
    with start_agent(pair, pair.dut, spec) as dut:
        error = error_of(dut)
    assert (error["object"], error["step"]) == ("dut0 queue 0", "bind")
    assert error["reason"] == "Operation not supported"
    assert not attached(pair)


def test_native_mode_on_loopback_fails_at_attach(pair: Pair) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch", ifname="lo")) as dut:
        error = error_of(dut)
    assert (error["object"], error["step"], error["reason"]) == ("lo", "attach", "Operation not supported")


def link_of(prog_id: int) -> str:
    """The id of the BPF link that holds a program."""
    (link,) = (link for link in json.loads(run(BPFTOOL, "-j", "link", "show")) if link.get("prog_id") == prog_id)
    return str(link["id"])


def detach(prog_id: int) -> None:
    run(BPFTOOL, "link", "detach", "id", link_of(prog_id))


def test_a_program_that_was_detached_fails_the_trial(pair: Pair) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch")) as dut:
        prog_id = dut.wait_for("ready")["attach"]["prog_id"]
        dut.command("go")
        detach(prog_id)
        dut.wait_for("measured")
        dut.command("finish")
        error = error_of(dut)
    assert (error["object"], error["step"]) == ("dut0", "verify")
    assert error["reason"] == f"program {prog_id} is not attached any more"


def test_a_program_that_was_replaced_fails_the_trial(pair: Pair) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch")) as dut:
        prog_id = dut.wait_for("ready")["attach"]["prog_id"]
        dut.command("go")
        detach(prog_id)
        with start_agent(pair, pair.dut, measure_spec("xdp.pass.no-touch")) as other:
            other_id = other.wait_for("ready")["attach"]["prog_id"]
            dut.wait_for("measured")
            dut.command("finish")
            error = error_of(dut)
    assert error["step"] == "verify"
    assert f"program {other_id} in mode native is attached, not program {prog_id}" in error["reason"]


def test_second_agent_on_the_port_is_refused(pair: Pair) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch")) as first:
        first.wait_for("ready")
        with start_agent(pair, pair.dut, measure_spec("xdp.pass.no-touch")) as second:
            error = error_of(second)
        assert (error["object"], error["step"], error["reason"]) == ("dut0", "attach", "Device or resource busy")
        assert "ip link show dev dut0" in error["hint"]
        first.command("finish")
        assert first.end() == 0


@pytest.mark.parametrize("case", ["xdp.drop.no-touch", "xsk.rxdrop"])
@pytest.mark.parametrize("stage", ["ready", "measure", "drain"])
def test_end_of_stdin_ends_the_agent_and_leaves_nothing(pair: Pair, case: str, stage: str) -> None:
    parts: dict[str, Any] = {"xsk": xsk_part()} if case == "xsk.rxdrop" else {}
    with start_agent(pair, pair.dut, measure_spec(case, measure_s=60, **parts)) as dut:
        dut.wait_for("ready")
        if stage == "measure":
            dut.command("go")
            dut.wait_for("sample")
        if stage == "drain":
            dut.command("stop")
        dut.close_stdin()
        error = error_of(dut)
    assert (error["object"], error["step"]) == ("stdin", "read")
    assert not attached(pair)


def test_end_of_stdin_before_the_spec_is_an_error(agent: Path) -> None:
    done = subprocess.run([agent, "trial"], input="", capture_output=True, text=True, check=False, timeout=10)
    assert done.returncode == 1
    assert "end of file" in json.loads(done.stdout)["error"]["reason"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("generator", ["live-frames", "af-packet"])
def test_a_signal_ends_a_sending_agent_at_once(pair: Pair, generator: str, number: signal.Signals) -> None:
    with (
        start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch")) as dut,
        start_agent(pair, pair.tester, generate_spec(pair, generator=generator)) as tester,
    ):
        dut.wait_for("ready")
        tester.wait_for("ready")
        tester.command("go")
        tester.wait_for("sample")
        tester.process.send_signal(number)
        error = error_of(tester)
    assert (error["object"], error["step"]) == ("agent", "signal")
    assert "xdp" not in show_link(pair.tester, "tester0")


@pytest.mark.parametrize("case", ["xdp.drop.no-touch", "xsk.rxdrop"])
def test_kill_leaves_nothing_attached_and_the_port_usable(pair: Pair, case: str) -> None:
    parts: dict[str, Any] = {"xsk": xsk_part()} if case == "xsk.rxdrop" else {}
    for _ in range(3):
        with start_agent(pair, pair.dut, measure_spec(case, **parts)) as dut:
            dut.wait_for("ready")
            dut.command("go")
            dut.wait_for("sample")
            dut.process.kill()
            dut.process.wait()
        wait_until_free(pair)


def test_kill_at_any_moment_leaves_nothing(pair: Pair) -> None:
    moments = random.Random(7)
    for _ in range(30):
        with start_agent(pair, pair.dut, measure_spec("xsk.rxdrop", xsk=xsk_part())) as dut:
            dut.command("go")
            time.sleep(moments.uniform(0, 0.06))
            dut.process.kill()
            dut.process.wait()
        wait_until_free(pair)


@pytest.mark.parametrize("end", [Agent.terminate, Agent.close_stdin])
def test_an_agent_that_nobody_reads_ends_when_it_is_told(pair: Pair, end: Callable[[Agent], None]) -> None:
    spec = measure_spec("xdp.drop.no-touch", interval_s=0.001, measure_s=60)
    with start_agent(pair, pair.dut, spec) as dut:
        dut.command("go")
        wait_until_full(dut)
        end(dut)
        assert dut.process.wait(5) == 1
    assert not attached(pair)


def test_a_reader_may_be_slow(pair: Pair) -> None:
    spec = measure_spec("xdp.drop.no-touch", interval_s=0.001, measure_s=60)
    with start_agent(pair, pair.dut, spec) as dut:
        dut.command("go")
        wait_until_full(dut)
        dut.command("finish")
        assert dut.end() == 0
    numbers = [line["sample"] for line in dut.lines if "sample" in line]
    assert numbers == list(range(len(numbers)))


def wait_until_full(agent: Agent) -> None:
    """Wait until an agent with much to say has no room left on its standard output."""
    unread, before = unread_bytes(agent), -1
    deadline = time.monotonic() + 10
    while (not unread or unread != before) and time.monotonic() < deadline:
        time.sleep(0.1)
        unread, before = unread_bytes(agent), unread
    assert unread == before > 4096


def unread_bytes(agent: Agent) -> int:
    """What an agent has printed and nobody has read yet."""
    assert agent.process.stdout is not None
    answer = fcntl.ioctl(agent.process.stdout, termios.FIONREAD, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


def test_a_queue_that_is_given_back_late_is_waited_for(pair: Pair) -> None:
    spec = measure_spec("xsk.rxdrop", xsk=xsk_part())
    with start_agent(pair, pair.dut, spec) as first:
        first.wait_for("ready")
        with start_agent(pair, pair.dut, spec) as second:
            time.sleep(0.2)
            first.process.kill()
            sockets = second.wait_for("ready")["xsk"]
    assert [s["queue_id"] for s in sockets] == [0, 1]
    assert sockets[0]["bind_retries"] > 0


def test_a_queue_that_stays_busy_is_an_error(pair: Pair) -> None:
    spec = measure_spec("xsk.rxdrop", xsk=xsk_part())
    with start_agent(pair, pair.dut, spec) as first:
        first.wait_for("ready")
        with start_agent(pair, pair.dut, spec) as second:
            error = error_of(second)
    assert (error["object"], error["step"]) == ("dut0 queue 0", "bind")
    assert error["reason"] == "Device or resource busy"
    assert "another AF_XDP socket" in error["hint"]


def test_umem_beyond_the_limit_names_the_limit(pair: Pair) -> None:
    spec = measure_spec("xsk.rxdrop", xsk=xsk_part(frames=1024, frame_size=4096))
    limited = ["prlimit", "--memlock=65536:65536", "setpriv", "--bounding-set=-ipc_lock,-sys_resource"]
    with start_agent(pair, pair.dut, spec, *limited) as dut:
        error = error_of(dut)
    assert (error["object"], error["step"], error["errno"]) == ("dut0 queue 0", "register UMEM", errno.ENOBUFS)
    assert "4096 KiB are asked for, and RLIMIT_MEMLOCK is 64 KiB" in error["hint"]


def test_low_limit_alone_is_no_reason_to_fail(pair: Pair) -> None:
    limited = ["prlimit", "--memlock=65536:65536", "setpriv", "--bounding-set=-sys_resource"]
    with start_agent(pair, pair.dut, measure_spec("xsk.rxdrop", xsk=xsk_part()), *limited) as dut:
        dut.wait_for("ready")


def test_queue_that_comes_during_a_trial_of_one_is_noticed(agent: Path, root_user: None) -> None:
    with make_pair(agent) as pair:
        run_ethtool(pair.tester, "-L", "tester0", "tx", "1")
        run_ethtool(pair.dut, "-L", "dut0", "rx", "1")
        with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch")) as dut:
            dut.wait_for("ready")
            run_ethtool(pair.dut, "-L", "dut0", "rx", "2")
            dut.command("finish")
            assert dut.end() == 1
    error = dut.lines[-1]["error"]
    assert (error["object"], error["step"]) == ("dut0", "verify")
    assert error["reason"] == "2 receive queues, and there was one when the program was loaded"


def test_each_agent_fits_into_the_usual_limit_of_old_kernels(pair: Pair) -> None:
    # Kernels before 5.11 charge this to RLIMIT_MEMLOCK, which systemd sets to 8 MiB.
    specs = [(pair.dut, measure_spec("xdp.redirect-map.swap-macs", "forward")), (pair.tester, generate_spec(pair))]
    for netns, spec in specs:
        with start_agent(pair, netns, spec) as agent:
            agent.wait_for("ready")
            assert 2**21 < locked_bytes(agent) < 2**22


def locked_bytes(agent: Agent) -> int:
    """What the kernel says the maps and programs of an agent cost."""
    infos = [path.read_text() for path in Path(f"/proc/{agent.process.pid}/fdinfo").iterdir()]
    return sum(int(line.split()[1]) for info in infos for line in info.splitlines() if line.startswith("memlock:"))


def test_missing_privilege_is_named(pair: Pair) -> None:
    unprivileged = ["setpriv", "--bounding-set=-sys_admin,-bpf,-net_admin"]
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch"), *unprivileged) as dut:
        error = error_of(dut)
    assert (error["step"], error["errno"]) == ("load", errno.EPERM)
    assert "CAP_BPF" in error["hint"]


def test_socket_mode_and_statistics_are_read_back(pair: Pair) -> None:
    with start_agent(pair, pair.dut, measure_spec("xsk.rxdrop", xsk=xsk_part(ring_rx=512, ring_fill=1024))) as dut:
        socket = dut.wait_for("ready")["xsk"][0]
        edge = dut.edge("start")
    assert (socket["bind_mode"], socket["ring_rx"], socket["ring_fill"]) == ("copy", 512, 1024)
    assert socket["statistics_len"] % 8 == 0
    names = [name for name in edge if name.startswith("xsk.q0.")]
    assert len(names) == socket["statistics_len"] // 8
    assert "xsk.q0.rx_dropped" in names


def test_edges_hold_every_source(pair: Pair) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch")) as dut:
        dut.wait_for("ready")
        edge = dut.edge("start")
    assert {"netdev.rx_packets", "netdev.rx_nohandler", "ethtool.rx_queue_0_xdp_packets"} <= edge.keys()
    assert edge["softnet.cpu0.processed"] > 0
    assert edge["proc_stat.cpu0.user"] > 0
    assert edge["proc_stat.clk_tck"] == 100


def test_a_source_that_is_missing_is_absent_with_the_reason(pair: Pair) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.pass.no-touch", ifname="lo", attach_mode="skb")) as dut:
        dut.wait_for("ready")
    (edge,) = (line for line in dut.lines if "edge" in line)
    assert "ethtool" not in [source["source"] for source in edge["sources"]]
    absent = {entry["source"]: entry["reason"] for entry in edge["absent"]}
    assert absent["ethtool"] == "lo: ethtool statistics: Operation not supported"


@pytest.mark.parametrize("line", ["go", "{}", '{"cmd": "wait"}', '{"cmd": 1}', '{"cmd": "go", "now": true}', ""])
def test_line_that_is_no_command_is_refused(pair: Pair, line: str) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch")) as dut:
        dut.wait_for("ready")
        dut.send(line)
        assert dut.end() == 2
    error = dut.lines[-1]["error"]
    assert (error["object"], error["step"]) == ("stdin", "command")
    assert error["reason"] == line + ' is not {"cmd": "go"|"stop"|"finish"}'
    assert not attached(pair)


def test_stop_before_the_end_of_measuring_drains(pair: Pair) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch", measure_s=60)) as dut:
        dut.wait_for("ready")
        dut.command("go")
        dut.wait_for("sample")
        dut.command("stop")
        assert dut.wait_for("drained")["drain_ns"] > 0
        dut.command("finish")
        assert dut.end() == 0
    assert not any("measured" in line for line in dut.lines)


def test_stop_after_all_is_sent_is_harmless(pair: Pair) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch")) as dut:
        dut.wait_for("ready")
        with start_agent(pair, pair.tester, generate_spec(pair, count=10)) as tester:
            tester.wait_for("ready")
            tester.command("go")
            tester.wait_for("stopped")
            tester.command("stop")
            tester.command("finish")
            assert tester.end() == 0
    assert sum("stopped" in line for line in tester.lines) == 1
    assert tester.moved()["generator.cpu1.packets"] == 10


def test_frames_that_the_port_throws_away_fail_the_trial(pair: Pair) -> None:
    with start_agent(pair, pair.tester, generate_spec(pair, count=100)) as tester:
        tester.wait_for("ready")
        tester.command("go")
        tester.wait_for("stopped")
        tester.command("finish")
        error = error_of(tester)  # dut0 has no program, so no NAPI that takes frames
    assert (error["object"], error["step"]) == ("tester0", "verify")
    assert error["reason"].startswith("100 frames were handed to the kernel")


def test_frames_longer_than_the_mtu_are_refused(pair: Pair) -> None:
    with start_agent(pair, pair.tester, generate_spec(pair, frame_len=1515)) as tester:
        assert tester.end() == 2
    assert tester.lines[-1]["error"]["reason"] == "1515 is not at most 1514, the MTU of tester0 plus 14"


def test_more_queues_than_the_programs_count_are_refused(agent: Path, root_user: None) -> None:
    with make_pair(agent, queues=65) as wide, start_agent(wide, wide.dut, measure_spec("xdp.drop.no-touch")) as dut:
        error = error_of(dut)
    assert error["reason"] == "65 receive queues; the programs count 64"
    assert error["hint"].startswith("ethtool -L dut0")


def in_sight(possible: str, tmp_path: Path) -> list[str]:
    """A command that starts another where the kernel says it may have such CPUs."""
    (tmp_path / "possible").write_text(f"{possible}\n")
    mount = 'mount --bind "$0" /sys/devices/system/cpu/possible && exec "$@"'
    return ["sh", "-c", mount, str(tmp_path / "possible")]


@pytest.mark.parametrize("possible", ["0-1,512", "0-1,600-703", "512"])
def test_numbers_of_cpus_that_the_programs_do_not_count_on_are_refused(
    pair: Pair, tmp_path: Path, possible: str
) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch"), *in_sight(possible, tmp_path)) as dut:
        error = error_of(dut)
    highest = possible.replace("-", ",").split(",")[-1]
    assert error["reason"] == f"CPUs up to number {highest}; the programs count on 0 to 511"


def test_list_of_cpus_that_is_none_is_refused(pair: Pair, tmp_path: Path) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch"), *in_sight("", tmp_path)) as dut:
        error = error_of(dut)
    assert (error["object"], error["reason"]) == ("/sys/devices/system/cpu/possible", "no list of CPUs")


@pytest.mark.parametrize("possible", ["0-1,511", "0,1", "0-511"])
def test_numbers_of_cpus_may_have_gaps(pair: Pair, tmp_path: Path, possible: str) -> None:
    spec = generate_spec(pair, count=1)
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch"), *in_sight(possible, tmp_path)) as dut:
        dut.wait_for("ready")
        with start_agent(pair, pair.tester, spec, *in_sight(possible, tmp_path)) as tester:
            tester.wait_for("ready")
            tester.command("go")
            tester.wait_for("stopped")
            tester.command("finish")
            assert tester.end() == 0
        dut.command("finish")
        assert dut.end() == 0
    assert dut.moved()[f"xdp_prog.cpu{CPU_PACKETS}.rxq{CPU_PACKETS}.XDP_DROP.packets"] == 1


def test_flows_are_taken_in_turn(pair: Pair) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.pass.no-touch")) as dut:
        dut.wait_for("ready")
        for generator in ("live-frames", "af-packet"):
            assert source_ports(pair, generator, count=12, flows=5) == [1024 + i % 5 for i in range(12)]


def source_ports(pair: Pair, generator: str, *, count: int, flows: int) -> list[int]:
    """The source ports of the frames that the stack of dut0 gets, in order."""
    sniffer = [
        "import socket, sys",
        "s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))",
        "s.bind(('dut0', 0x0800))",
        "print('ready', flush=True)",
        f"print(*[int.from_bytes(s.recv(2048)[34:36], 'big') for _ in range({count})])",
    ]
    argv = ["ip", "netns", "exec", pair.dut, sys.executable, "-c", "\n".join(sniffer)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        spec = generate_spec(pair, generator=generator, count=count, flows=flows)
        with start_agent(pair, pair.tester, spec) as tester:
            tester.wait_for("ready")
            tester.command("go")
            tester.wait_for("stopped")
            tester.command("finish")
            assert tester.end() == 0
        return [int(port) for port in process.stdout.readline().split()]


def test_egress_to_another_port_is_counted_apart(agent: Path, root_user: None) -> None:
    with make_pair(agent) as near, make_pair(agent) as far:
        run("ip", "-n", far.dut, "link", "set", "dut0", "netns", near.dut, "name", "out0")
        run("ip", "-n", near.dut, "link", "set", "out0", "up")
        with start_agent(far, far.tester, measure_spec("xdp.drop.no-touch", ifname="tester0")) as sink:
            sink.wait_for("ready")
            spec = measure_spec("xdp.redirect-map.swap-macs", "forward", egress_ifname="out0", measure_s=0.1)
            dut, _ = run_trial(near, spec, generate_spec(near, count=1000))
            sink.command("finish")
            assert sink.end() == 0
        assert dut.moved()["egress_netdev.tx_packets"] == 1000
        assert sink.moved()["netdev.rx_packets"] == 1000


@contextmanager
def lost_carrier(pair: Pair) -> Iterator[Callable[[], object]]:
    """dut0 without carrier, until what this gives is called."""
    run("ip", "-n", pair.tester, "link", "set", "tester0", "down")
    give_back = partial(run, "ip", "-n", pair.tester, "link", "set", "tester0", "up")
    try:
        yield give_back
    finally:
        give_back()


def wait_until_attached(pair: Pair) -> None:
    deadline = time.monotonic() + 5
    while not attached(pair) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert attached(pair)


def test_agent_is_not_ready_before_it_has_carrier(pair: Pair) -> None:
    with lost_carrier(pair) as give_back, start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch")) as dut:
        wait_until_attached(pair)
        time.sleep(0.2)
        assert not unread_bytes(dut)
        give_back()
        dut.wait_for("ready")


def test_end_of_stdin_ends_an_agent_that_waits_for_carrier(pair: Pair) -> None:
    with lost_carrier(pair), start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch")) as dut:
        wait_until_attached(pair)
        dut.close_stdin()
        error = error_of(dut)
    assert (error["object"], error["step"]) == ("stdin", "read")
    assert not attached(pair)

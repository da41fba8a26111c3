# SPDX-License-Identifier: GPL-2.0-or-later
"""Every XDP case, in both modes and with each way to the data: each packet is in the place that the case says."""

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
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
    run_trial,
    start_agent,
    total,
)
from conftest import need

pytestmark = pytest.mark.netns

COUNT = 400
FLOWS = 8
TOUCHES = ("no-touch", "read-data", "parse-ip", "swap-macs")
MOVED = ("no-touch", "swap-macs")
ACTIONS = {"drop": "XDP_DROP", "pass": "XDP_PASS", "abort": "XDP_ABORTED", "tx": "XDP_TX"}
TOUCHES_OF = {
    "drop": TOUCHES,
    "pass": TOUCHES,
    "abort": ("no-touch",),
    "tx": TOUCHES,
    "redirect": MOVED,
    "redirect-map": MOVED,
    "redirect-multi": ("swap-macs",),
}
JUMBO_LEN = 9000
BPFTOOL = "/usr/sbin/bpftool"
SOURCE = Path(__file__).with_name("frags_seen.bpf.c")


def iter_cases() -> Iterator[tuple[str, str, str, str]]:
    """Operation, touch, mode and access of each."""
    for op, touches in TOUCHES_OF.items():
        for touch in touches:
            for mode in ("native", "skb"):
                for access in ("pointer", "load-bytes")[: 1 if touch == "no-touch" else 2]:
                    yield op, touch, mode, access


@pytest.fixture(scope="module")
def pair(agent: Path, root_user: None) -> Iterator[Pair]:
    with make_pair(agent) as made:
        yield made


@pytest.fixture(scope="module")
def jumbo(agent: Path, root_user: None) -> Iterator[Pair]:
    with make_pair(agent) as made:
        for netns, ifname in ((made.dut, "dut0"), (made.tester, "tester0")):
            run("ip", "-n", netns, "link", "set", ifname, "mtu", str(JUMBO_LEN))
        yield made


def is_forwarded(op: str) -> bool:
    return op == "tx" or op.startswith("redirect")


def case_spec(op: str, touch: str, mode: str = "native", **xdp: Any) -> Line:
    role = "forward" if is_forwarded(op) else "sink"
    return measure_spec(f"xdp.{op}.{touch}", role, attach_mode=mode, settle_s=0, measure_s=0.05, xdp=xdp)


def sending(pair: Pair, mode: str = "native", **changes: Any) -> Line:
    generator = "live-frames" if mode == "native" else "af-packet"
    return generate_spec(pair, **{"generator": generator, "count": COUNT, **changes})


def seen(tester: Agent) -> int:
    """Frames that dut0 took; a refusal that AF_PACKET heard of is an error, and the frame was sent again."""
    moved = tester.moved()
    refused = max(0, moved["netdev.tx_dropped"] - total(moved, "generator.", ".errors"))
    return total(moved, "generator.", ".packets") - refused


def returned(tester: Agent) -> int:
    return total(tester.moved(), "xdp_prog.", ".XDP_DROP.packets")


def not_sent(moved: Counter[str]) -> int:
    """What found the way back full."""
    return moved["netdev.tx_dropped"] + total(moved, "ethtool.rx_queue_", "_drops")


@pytest.mark.parametrize(("op", "touch", "mode", "access"), tuple(iter_cases()))
def test_every_packet_is_where_its_case_says(pair: Pair, op: str, touch: str, mode: str, access: str) -> None:
    dut, tester = run_trial(pair, case_spec(op, touch, mode, access=access), sending(pair, mode))
    moved = dut.moved()
    action = ACTIONS.get(op, "XDP_REDIRECT")
    assert seen(tester) > 0
    assert total(moved, "xdp_prog.", f".{action}.packets") == seen(tester)
    assert total(moved, "xdp_prog.", ".packets") == seen(tester)
    if is_forwarded(op):
        copies = 2 if op == "redirect-multi" else 1
        assert returned(tester) == copies * seen(tester) - not_sent(moved)


@pytest.mark.parametrize("fanout", [1, 3])
def test_copies_are_as_many_as_slots(pair: Pair, fanout: int) -> None:
    spec = case_spec("redirect-multi", "swap-macs", fanout=fanout)
    dut, tester = run_trial(pair, spec, sending(pair, count=50))
    ready = next(line for line in dut.lines if "ready" in line)
    assert ready["xdp"] == {"ports": [ready["attach"]["ifindex"]] * fanout}
    assert returned(tester) == 50 * fanout


def cpu_spec(remote: str, *, mode: str = "native", **changes: Any) -> Line:
    xdp = {"cpus": [CPU_SAMPLER], "qsize": 2048, "select": "round-robin", "remote": remote, **changes}
    role = "forward" if remote == "redirect" else "sink"
    case = measure_spec("xdp.redirect-cpu.no-touch", role, attach_mode=mode, settle_s=0, measure_s=0.05)
    return case | {"xdp": xdp}


def received_by_ip(pair: Pair) -> int:
    """Packets that came to the DUT's IPv4."""
    names, values = (
        line.split() for line in run("ip", "netns", "exec", pair.dut, "grep", "^Ip:", "/proc/net/snmp").splitlines()
    )
    return int(values[names.index("InReceives")])


def run_to_cpus(pair: Pair, spec: Line, **changes: Any) -> tuple[Counter[str], int]:
    """What moved on the DUT, and how many packets were handed over."""
    dut, tester = run_trial(pair, spec, sending(pair, spec["attach_mode"], **changes))
    moved = dut.moved()
    assert total(moved, "xdp_prog.", ".XDP_REDIRECT.packets") == seen(tester) > 0
    assert total(moved, "xdp_prog.", ".packets") == seen(tester)
    if spec["role"] == "forward":
        assert returned(tester) == seen(tester) - not_sent(moved)
    return moved, seen(tester)


@pytest.mark.parametrize("mode", ["native", "skb"])
@pytest.mark.parametrize("remote", ["drop", "pass", "redirect"])
def test_program_on_another_cpu_has_every_packet(pair: Pair, remote: str, mode: str) -> None:
    before = received_by_ip(pair)
    moved, packets = run_to_cpus(pair, cpu_spec(remote, mode=mode))
    assert moved[f"xdp_remote.cpu{CPU_SAMPLER}.XDP_{remote.upper()}.packets"] == packets
    assert total(moved, "xdp_remote.", ".packets") == packets
    assert received_by_ip(pair) - before == (packets if remote == "pass" else 0)


@pytest.mark.parametrize("mode", ["native", "skb"])
def test_without_a_program_the_other_cpu_hands_every_packet_to_the_stack(pair: Pair, mode: str) -> None:
    before = received_by_ip(pair)
    moved, packets = run_to_cpus(pair, cpu_spec("none", mode=mode))
    assert received_by_ip(pair) - before == packets
    assert total(moved, "xdp_remote.", ".packets") == 0


def test_cpus_take_turns(pair: Pair) -> None:
    need(CPU_PACKETS != CPU_SAMPLER, "needs two CPUs")
    moved, packets = run_to_cpus(pair, cpu_spec("drop", cpus=[0, 1]))
    shares = [moved[f"xdp_remote.cpu{cpu}.XDP_DROP.packets"] for cpu in (0, 1)]
    assert shares == [(packets + 1) // 2, packets // 2]


def test_packets_of_a_flow_go_to_one_cpu(pair: Pair) -> None:
    need(CPU_PACKETS != CPU_SAMPLER, "needs two CPUs")
    spec = cpu_spec("drop", cpus=[0, 1], select="l4-hash")
    alone, packets = run_to_cpus(pair, spec)
    assert sorted(alone[f"xdp_remote.cpu{cpu}.XDP_DROP.packets"] for cpu in (0, 1)) == [0, packets]
    several, packets = run_to_cpus(pair, spec, flows=FLOWS)
    shares = [several[f"xdp_remote.cpu{cpu}.XDP_DROP.packets"] for cpu in (0, 1)]
    assert sum(shares) == packets
    assert all(shares)
    if packets == COUNT:
        assert [share % (COUNT // FLOWS) for share in shares] == [0, 0]


def test_queues_to_cpus_are_read_back(pair: Pair) -> None:
    with start_agent(pair, pair.dut, cpu_spec("drop", qsize=77)) as dut:
        (cpu,) = dut.wait_for("ready")["xdp"]["cpus"]
    assert (cpu["cpu"], cpu["qsize"]) == (CPU_SAMPLER, 77)
    assert cpu["prog_id"] > 0


def test_packets_that_find_the_queue_to_a_cpu_full_are_missing_there(pair: Pair) -> None:
    moved, packets = run_to_cpus(pair, cpu_spec("drop", qsize=8), count=20000)
    assert 0 < total(moved, "xdp_remote.", ".packets") < packets


JUMBO_CASES = [
    ("drop", "no-touch", "pointer"),
    ("drop", "read-data", "load-bytes"),
    ("pass", "parse-ip", "pointer"),
    ("tx", "swap-macs", "pointer"),
    ("tx", "swap-macs", "load-bytes"),
    ("redirect-map", "swap-macs", "pointer"),
]


@pytest.mark.parametrize(("op", "touch", "access"), JUMBO_CASES)
def test_jumbo_frame_is_one_packet(jumbo: Pair, op: str, touch: str, access: str) -> None:
    line = sending(jumbo, "skb", count=60, frame_len=JUMBO_LEN)
    dut, tester = run_trial(jumbo, case_spec(op, touch, access=access, frags=True), line)
    moved = dut.moved()
    assert total(moved, "xdp_prog.", f".{ACTIONS.get(op, 'XDP_REDIRECT')}.packets") == seen(tester) == 60
    assert returned(tester) == (60 - not_sent(moved) if is_forwarded(op) else 0)


def test_jumbo_frames_are_handed_to_another_cpu(jumbo: Pair) -> None:
    spec = cpu_spec("drop", frags=True)
    dut, tester = run_trial(jumbo, spec, sending(jumbo, "skb", count=60, frame_len=JUMBO_LEN))
    assert total(dut.moved(), "xdp_remote.", ".XDP_DROP.packets") == seen(tester) == 60


def test_jumbo_frames_of_these_tests_are_in_fragments(jumbo: Pair, tmp_path: Path) -> None:
    """Another program in the place of ours says how long packets are, and their first part."""
    need(shutil.which("clang") is not None, "no clang: run 'make setup'")
    built, pin = tmp_path / "frags_seen.bpf.o", Path(f"/sys/fs/bpf/{jumbo.dut}")
    include = f"-idirafter/usr/include/{run('cc', '-print-multiarch').strip()}"
    run("clang", "-O2", "-g", "-target", "bpf", include, "-c", str(SOURCE), "-o", str(built))
    run(BPFTOOL, "prog", "load", str(built), str(pin))
    try:
        # `ip netns exec` would hide the pin under a /sys of its own.
        net = ["nsenter", f"--net=/run/netns/{jumbo.dut}", BPFTOOL, "net"]
        run(*net, "attach", "xdpdrv", "pinned", str(pin), "dev", "dut0")
        with start_agent(jumbo, jumbo.tester, sending(jumbo, "skb", count=60, frame_len=JUMBO_LEN)) as tester:
            tester.wait_for("ready")
            tester.command("go")
            tester.wait_for("stopped")
            tester.command("finish")
            tester.wait_for("done")
        (values,) = (line for line in read_bss(pin) if line["packets"])
        run(*net, "detach", "xdpdrv", "dev", "dut0")
    finally:
        pin.unlink()
    assert values == {"packets": 60, "in_fragments": 60, "bytes": 60 * JUMBO_LEN}


def read_bss(pin: Path) -> list[Line]:
    """The variables of a program."""
    (map_id,) = json.loads(run(BPFTOOL, "-j", "prog", "show", "pinned", str(pin)))["map_ids"]
    (dumped,) = json.loads(run(BPFTOOL, "-j", "map", "dump", "id", str(map_id)))
    sections: Line = dumped["formatted"]["value"]
    return [variable["seen"] for variable in sections[".bss"]]


def fail_of(pair: Pair, spec: Line) -> Line:
    """What an agent says that cannot start its trial."""
    with start_agent(pair, pair.dut, spec) as dut:
        assert dut.end() in (1, 2)
    error: Line = dut.lines[-1]["error"]
    return error


def test_program_without_fragments_is_refused_at_a_large_mtu(jumbo: Pair) -> None:
    error = fail_of(jumbo, case_spec("drop", "no-touch"))
    assert (error["object"], error["step"]) == ("dut0", "attach")
    assert "MTU is too large" in error["hint"]


def test_cpu_that_is_not_there_is_named(pair: Pair) -> None:
    possible = Path("/sys/devices/system/cpu/possible").read_text()
    absent = int(re.split("[-,]", possible.strip())[-1]) + 1
    error = fail_of(pair, cpu_spec("drop", cpus=[absent]))
    assert (error["object"], error["reason"]) == ("xdp.cpus", f"there is no CPU {absent}")


BAD_SPECS = [
    (case_spec("drop", "no-touch", access="load-bytes"), "xdp.access", '"load-bytes" is not of use'),
    (case_spec("drop", "read-data", access="copy"), "xdp.access", '"copy" is not one of pointer, load-bytes'),
    (case_spec("drop", "read-data", fanout=2), "xdp.fanout", "unknown key here; allowed: access, frags"),
    (case_spec("redirect-multi", "swap-macs", fanout=33), "xdp.fanout", "33 is not an integer from 1 to 32"),
    (case_spec("tx", "swap-macs", frags=1), "xdp.frags", "1 is not true or false"),
    (cpu_spec("drop", cpus=[]), "xdp.cpus", "[] is not a list of different integers"),
    (cpu_spec("drop", qsize=0), "xdp.qsize", "0 is not an integer from 1 to 16384"),
    (cpu_spec("drop", select="l2-hash"), "xdp.select", '"l2-hash" is not one of round-robin, l4-hash'),
    (cpu_spec("drop") | {"role": "forward"}, "xdp.remote", '"drop" is not redirect, as the role forward wants'),
    (cpu_spec("redirect") | {"role": "sink"}, "xdp.remote", '"redirect" is not none, drop or pass'),
]


@pytest.mark.parametrize(("spec", "key", "reason"), BAD_SPECS)
def test_bad_spec_names_key_value_and_what_is_allowed(agent: Path, spec: Line, key: str, reason: str) -> None:
    done = subprocess.run([agent, "trial"], input=json.dumps(spec) + "\n", capture_output=True, text=True, timeout=10)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["step"]) == (2, key)
    assert error["reason"].startswith(reason)

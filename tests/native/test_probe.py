# SPDX-License-Identifier: GPL-2.0-or-later
"""What a port can do is found by trying, and the tries leave no trace."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_lab import Line, Pair, make_pair, measure_spec, run, run_ethtool, show_link, start_agent, xsk_part

pytestmark = pytest.mark.netns

TRIED = (
    "xdp_native",
    "xdp_skb",
    "multi_buffer",
    "load_bytes",
    "redirect_multi",
    "redirect_cpu",
    "xsk_copy",
    "xsk_zero_copy",
    "huge_pages",
    "live_frames",
    "af_packet",
    "tc",
    "busy_poll",
    "pmu",
    "resctrl",
)


@pytest.fixture(scope="module")
def pair(agent: Path, root_user: None) -> Iterator[Pair]:
    with make_pair(agent) as made:
        yield made


def probe(pair: Pair, ifname: str) -> Line:
    line: Line = json.loads(run("ip", "netns", "exec", pair.dut, str(pair.agent), "probe", ifname))
    return line


def test_facts_are_those_that_ip_shows(pair: Pair) -> None:
    told, link = probe(pair, "dut0"), show_link(pair.dut, "dut0")
    assert (told["ifname"], told["driver"], told["mac"]) == ("dut0", "veth", link["address"])
    assert (told["ifindex"], told["mtu"], told["carrier"]) == (link["ifindex"], link["mtu"], True)
    assert (told["rx_queues"], told["tx_queues"]) == (2, 2)
    assert (told["channels"]["rx"], told["channels"]["max_rx"]) == (2, 2)
    assert told["features"]["rx-gro"] is False
    assert told["kernel"]["release"] == run("uname", "-r").strip()
    assert told["numa_node"] == -1


def test_what_the_machine_allows_is_told(pair: Pair) -> None:
    system = probe(pair, "dut0")["system"]
    memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    assert system["huge_pages_free"] == int(memory["HugePages_Free"])
    assert system["btf"] == Path("/sys/kernel/btf/vmlinux").exists()
    assert system["memlock_kib"] is None


def test_limit_of_locked_memory_counts_without_the_capability(pair: Pair) -> None:
    without = ["setpriv", "--bounding-set=-ipc_lock,-sys_resource", "prlimit", f"--memlock={64 * 1024}"]
    told = run("ip", "netns", "exec", pair.dut, *without, str(pair.agent), "probe", "dut0")
    assert json.loads(told)["system"]["memlock_kib"] == 64


def test_feature_that_is_switched_on_is_seen(pair: Pair) -> None:
    run_ethtool(pair.dut, "-K", "dut0", "gro", "on")
    try:
        assert probe(pair, "dut0")["features"]["rx-gro"] is True
    finally:
        run_ethtool(pair.dut, "-K", "dut0", "gro", "off")


def test_veth_can_do_native_xdp_and_copies_but_no_zero_copy(pair: Pair) -> None:
    can = probe(pair, "dut0")["can"]
    assert tuple(can) == TRIED
    for name in ("xdp_native", "xdp_skb", "xsk_copy", "af_packet", "tc"):
        assert can[name] == {"ok": True}
    assert can["xsk_zero_copy"] == {"ok": False, "reason": "dut0 queue 0: bind: Operation not supported"}


def test_whatever_cannot_be_done_has_a_reason(pair: Pair) -> None:
    for name, result in probe(pair, "dut0")["can"].items():
        assert result["ok"] or result["reason"], name


def test_loopback_has_no_native_xdp_and_says_so(pair: Pair) -> None:
    told = probe(pair, "lo")
    assert told["can"]["xdp_native"] == {"ok": False, "reason": "lo: attach: Operation not supported"}
    assert told["can"]["xdp_skb"] == {"ok": True}
    assert {"source": "channels", "reason": "Operation not supported"} in told["absent"]
    assert "channels" not in told


def test_port_in_use_is_busy_and_the_rest_is_told(pair: Pair) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch")) as dut:
        prog_id = dut.wait_for("ready")["attach"]["prog_id"]
        told = probe(pair, "dut0")
        dut.command("finish")
        assert dut.end() == 0, "the probe must not disturb what is attached"
    assert told["xdp"] == {"attached": True, "attach_mode": "native", "prog_id": prog_id}
    busy = f"dut0: attach: busy: program {prog_id} is attached in mode native"
    for name in ("xdp_native", "xdp_skb", "multi_buffer"):
        assert told["can"][name] == {"ok": False, "reason": busy}
    assert told["can"]["xsk_copy"] == {"ok": True}


def test_probe_leaves_no_trace(pair: Pair) -> None:
    before = show_link(pair.dut, "dut0")
    features = probe(pair, "dut0")["features"]
    again = probe(pair, "dut0")
    assert show_link(pair.dut, "dut0") == before
    assert again["features"] == features
    assert again["xdp"] == {"attached": False, "attach_mode": None, "prog_id": 0}
    with start_agent(pair, pair.dut, measure_spec("xsk.rxdrop", xsk=xsk_part())) as dut:
        dut.wait_for("ready")


def test_port_that_is_not_there_is_an_error(agent: Path) -> None:
    done = subprocess.run([agent, "probe", "nowhere0"], capture_output=True, text=True, check=False, timeout=10)
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"] == {
        "object": "nowhere0",
        "step": "find",
        "reason": "No such device",
        "errno": 19,
    }

# SPDX-License-Identifier: GPL-2.0-or-later
"""A bad spec, command or command line ends the agent with status 2 and names the key, the value and what is allowed."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from agent_lab import Line, Pair, generate_spec, measure_spec, xsk_part

NOWHERE = Pair(Path(), "", "", "02:00:00:00:00:01", "02:00:00:00:00:02")
REMOVED = object()


def run_agent(agent: Path, *argv: str, stdin: str = "") -> tuple[int, Line]:
    """Exit status and the error that the agent printed as its only line."""
    done = subprocess.run([agent, *argv], input=stdin, capture_output=True, text=True, check=False, timeout=10)
    (line,) = done.stdout.splitlines()
    error: Line = json.loads(line)["error"]
    return done.returncode, error


def changed(spec: Line, path: str, value: Any) -> Line:
    """A copy of a spec with one value set, or removed."""
    copy: Line = json.loads(json.dumps(spec))
    *parents, key = path.split(".")
    section = copy
    for parent in parents:
        section = section[parent]
    section[key] = value
    if value is REMOVED:
        del section[key]
    return copy


SINK = measure_spec("xdp.drop.no-touch")
FORWARD = measure_spec("xdp.redirect.swap-macs", "forward", egress_ifname="dut1")
SOCKET = measure_spec("xsk.rxdrop", xsk=xsk_part())
GENERATE = generate_spec(NOWHERE)
COUNTED = GENERATE | {"count": 1}
PACKET = GENERATE | {"generator": "af-packet"}

BAD_VALUES: list[tuple[Line, str, Any, str]] = [
    (SINK, "role", "source", '"source" is not one of sink, forward, transmit, generate'),
    (SINK, "role", REMOVED, "missing; it must be one of sink, forward, transmit, generate"),
    (SINK, "case", "xdp.drop", '"xdp.drop" is not a case of this role: xdp.drop.no-touch'),
    (SINK, "case", "xdp.tx.swap-macs", '"xdp.tx.swap-macs" is not a case of this role: xdp.drop.no-touch'),
    (FORWARD, "case", "xdp.drop.no-touch", "is not a case of this role: xdp.tx.no-touch, xdp.tx.read-data"),
    (SINK, "case", 1, "1 is not a string of 1 to 63 characters"),
    (SINK, "ifname", "", '"" is not a string of 1 to 15 characters'),
    (SINK, "ifname", "a-name-of-16-chr", "is not a string of 1 to 15 characters"),
    (SINK, "ifname", REMOVED, "missing; it must be a string of 1 to 15 characters"),
    (SINK, "interval_s", 0, "0 is not a number of seconds from 0.001 to 3600"),
    (SINK, "interval_s", "1", '"1" is not a number of seconds'),
    (SINK, "sampler_cpu", -1, "-1 is not an integer from 0 to 511"),
    (SINK, "sampler_cpu", 512, "512 is not an integer from 0 to 511"),
    (SINK, "sampler_cpu", 1.0, "1.0 is not an integer from 0 to 511"),
    (SINK, "sampler_cpu", True, "true is not an integer from 0 to 511"),
    (SINK, "attach_mode", "generic", '"generic" is not one of native, skb'),
    (SINK, "settle_s", -0.1, "-0.1 is not a number of seconds from 0 to 3600"),
    (SINK, "settle_s", None, "null is not a number of seconds from 0 to 3600"),
    (SINK, "measure_s", 0, "0 is not a number of seconds from 0.001 to 3600"),
    (SINK, "measure_s", 1e300, "1e300 is not a number of seconds from 0.001 to 3600"),
    (SINK, "measure_s", 3601, "3601 is not a number of seconds from 0.001 to 3600"),
    (SINK, "mesure_s", 1, "unknown key here; allowed: role, ifname, interval_s"),
    (SINK, "xsk", xsk_part(), "unknown key here; allowed: role"),
    (SINK, "egress_ifname", "dut1", "unknown key here; allowed: role"),
    (FORWARD, "egress_ifname", 5, "5 is not a string of 1 to 15 characters"),
    (SOCKET, "xsk", REMOVED, "missing; it must be an object"),
    (SOCKET, "xsk", [], "[] is not an object"),
    (SOCKET, "xsk.bind_mode", "zc", '"zc" is not one of copy, zero-copy'),
    (SOCKET, "xsk.queues", [], "[] is not a list of different integers from 0 to 63"),
    (SOCKET, "xsk.queues", [0, 0], "[0,0] is not a list of different integers from 0 to 63"),
    (SOCKET, "xsk.queues", [64], "[64] is not a list of different integers from 0 to 63"),
    (SOCKET, "xsk.queues", ["0"], "is not a list of different integers from 0 to 63"),
    (SOCKET, "xsk.queues", 0, "0 is not a list of different integers from 0 to 63"),
    (SOCKET, "xsk.app_cpus", [512], "[512] is not a list of different integers from 0 to 511"),
    (SOCKET, "xsk.app_cpus", [0, 1, 2], "[0,1,2] is not at most one for each of the queues"),
    (SOCKET, "xsk.sockets", 3, "3 is not a power of two from 1 to 16"),
    (SOCKET, "xsk.sockets", 2, "2 is not 1 without shared_umem"),
    (SOCKET, "xsk.ring_tx", 63, "63 is not a power of two from 64 to 65536"),
    (SOCKET, "xsk.ring_completion", 1 << 17, "131072 is not a power of two from 64 to 65536"),
    (SOCKET, "xsk.frags", 1, "1 is not true or false"),
    (SOCKET, "xsk.busy_poll_budget", 0, "0 is not an integer from 1 to 65535"),
    (SOCKET, "xsk.wakeup", "busy", '"busy" is not one of irq, need-wakeup, poll, busy-poll'),
    (SOCKET, "xsk.batch", 0, "0 is not an integer from 1 to 4096"),
    (SOCKET, "xsk.ring_rx", 1000, "1000 is not a power of two from 64 to 65536"),
    (SOCKET, "xsk.ring_fill", 32, "32 is not a power of two from 64 to 65536"),
    (SOCKET, "xsk.frames", 63, "63 is not an integer from 64 to 1048576"),
    (SOCKET, "xsk.frame_size", 3000, "3000 is not a power of two from 2048 to 4096"),
    (SOCKET, "xsk.need_wakeup", True, "unknown key here; allowed: bind_mode, queues"),
    (GENERATE, "case", "xdp.drop.no-touch", "unknown key here; allowed: role"),
    (GENERATE, "generator", "pktgen", '"pktgen" is not one of live-frames, af-packet'),
    (GENERATE, "cpus", [1, 1], "[1,1] is not a list of different integers from 0 to 511"),
    (GENERATE, "cpus", [512], "[512] is not a list of different integers from 0 to 511"),
    (GENERATE, "batch", 257, "257 is not an integer from 1 to 256"),
    (GENERATE, "count", -1, "-1 is not an integer from 0 to 1000000000000"),
    (GENERATE, "count", 1e6, "1e6 is not an integer"),
    (GENERATE, "window", 1, "1 is not allowed without a count"),
    (COUNTED | {"cpus": [0, 1]}, "window", 1, "1 is not allowed with more than one of cpus"),
    (COUNTED, "window", -1, "-1 is not an integer from 0 to 2147483647"),
    (GENERATE, "frame", "small", '"small" is not an object'),
    (GENERATE, "frame.dst_mac", "02:00:00:00:00", "is not a MAC address"),
    (GENERATE, "frame.dst_mac", "02:00:00:00:00:01 ", "is not a MAC address"),
    (GENERATE, "frame.src_mac", "2:0:0:0:0:1", "is not a MAC address"),
    (GENERATE, "frame.src_mac", "02:00:00:00:00:0g", "is not a MAC address"),
    (GENERATE, "frame.frame_len", 59, "59 is not an integer from 60 to 9000"),
    (GENERATE, "frame.frame_len", 9001, "9001 is not an integer from 60 to 9000"),
    (GENERATE, "frame.frame_len", 3401, "3401 is not at most 3400, what a live frame can be: use af-packet"),
    (GENERATE, "rate_pps", -1, "-1 is not an integer from 0 to 1000000000"),
    (GENERATE, "rate_pps", 1.5, "1.5 is not an integer from 0 to 1000000000"),
    (COUNTED, "rate_pps", 1, "1 is not allowed with live-frames and a count"),
    (GENERATE, "closed_loop", 65537, "65537 is not an integer from 0 to 65536"),
    (GENERATE, "closed_loop", 1, "1 is not allowed with live-frames: use af-packet"),
    (PACKET | {"cpus": [0, 1]}, "closed_loop", 1, "1 is not allowed with more than one of cpus"),
    (PACKET | {"rate_pps": 1}, "closed_loop", 1, "1 is not allowed with a rate_pps"),
    (GENERATE, "frame.flows", 0, "0 is not an integer from 1 to 64512"),
    (GENERATE, "frame.ttl", 1, "unknown key here; allowed: dst_mac, src_mac, frame_len, flows"),
]


@pytest.mark.parametrize(("spec", "path", "value", "reason"), BAD_VALUES)
def test_bad_value_names_key_value_and_what_is_allowed(
    agent: Path, spec: Line, path: str, value: Any, reason: str
) -> None:
    status, error = run_agent(agent, "trial", stdin=json.dumps(changed(spec, path, value)) + "\n")
    assert (status, error["object"], error["step"]) == (2, "spec", path)
    assert reason in error["reason"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"role": "sink", "role": "sink"}', "null", '{"a": "\x00"}', "\xff"])
def test_text_that_is_no_object_is_refused(agent: Path, text: str) -> None:
    status, error = run_agent(agent, "trial", stdin=text + "\n")
    assert (status, error["object"], error["step"]) == (2, "spec", "parse")
    assert error["reason"]


def test_line_without_end_is_refused(agent: Path) -> None:
    status, error = run_agent(agent, "trial", stdin="x" * 70000)
    assert (status, error["reason"]) == (2, "a line is longer than 65536 bytes")


@pytest.mark.parametrize("argv", [[], ["help"], ["trial", "now"], ["probe"], ["probe", "a", "b"], ["version", "x"]])
def test_bad_command_line_shows_the_usage(agent: Path, argv: list[str]) -> None:
    status, error = run_agent(agent, *argv)
    assert status == 2
    assert error["reason"] == "usage: xdprepro-agent version | probe IFNAME | trial"


@pytest.mark.parametrize("key", ["sampler_cpu", "xsk.app_cpus", "cpus"])
def test_cpu_that_is_not_there_is_named(agent: Path, root_user: None, key: str) -> None:
    spec, value = {
        "sampler_cpu": (SINK, 511),
        "xsk.app_cpus": (SOCKET | {"ifname": "lo", "attach_mode": "skb"}, [511]),
        "cpus": (GENERATE | {"ifname": "lo", "attach_mode": "skb"}, [511]),
    }[key]
    if key == "xsk.app_cpus":
        spec = changed(spec, "xsk.queues", [0])
    status, error = run_agent(agent, "trial", stdin=json.dumps(changed(spec, key, value)) + "\n")
    assert (status, error["object"], error["step"]) == (1, f"{key}: CPU 511", "pin")


def test_port_that_is_not_there_is_named(agent: Path) -> None:
    status, error = run_agent(agent, "trial", stdin=json.dumps(SINK | {"ifname": "nowhere0"}) + "\n")
    assert (status, error["object"], error["reason"]) == (1, "nowhere0", "No such device")

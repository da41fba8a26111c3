# SPDX-License-Identifier: GPL-2.0-or-later
"""A veth pair in two namespaces of this process, and agents that run in them."""

import itertools
import json
import os
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conftest import ROOT, need

Line = dict[str, Any]

CPU_SAMPLER = 0
CPU_PACKETS = os.cpu_count() - 1 if os.cpu_count() else 0  # type: ignore[operator]
WAIT_S = 30

_serial = itertools.count()


def run(*argv: str) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


def build_program(name: str, tmp_path: Path, *flags: str) -> Path:
    """A program from a source in tests/native and the agent's objects, all but its main()."""
    native, program = ROOT / "native", tmp_path / name
    objects = [str(path) for path in (native / "build").glob("*.o") if path.name != "main.o"]
    libraries = shlex.split(run("pkg-config", "--static", "--cflags", "--libs", "libxdp", "libbpf", "jansson"))
    compiler = [os.environ.get("CC", "cc"), "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-static", "-no-pie"]
    source = str(ROOT / "tests/native" / f"{name}.c")
    run(*compiler, *flags, f"-I{native}", "-o", str(program), source, *objects, *libraries, "-pthread")
    return program


def run_ethtool(netns: str, *words: str) -> None:
    """Change a setting of a port; skips where there is no ethtool."""
    need(shutil.which("ethtool") is not None, "no ethtool: run 'make setup'")
    run("ip", "netns", "exec", netns, "ethtool", *words)


@dataclass(frozen=True)
class Pair:
    """dut0 and tester0, both up, without IPv6 so that no packet comes but those that are sent."""

    agent: Path
    dut: str
    tester: str
    dut_mac: str
    tester_mac: str


@contextmanager
def make_pair(agent: Path, *, queues: int = 2) -> Iterator[Pair]:
    """Two namespaces and a veth pair between them, removed at the end."""
    stem = f"xdpt-{os.getpid()}-{next(_serial)}"
    dut, tester = f"{stem}-dut", f"{stem}-tester"
    size = ["numrxqueues", str(queues), "numtxqueues", str(queues)]
    with ExitStack() as stack:
        for netns in (dut, tester):
            run("ip", "netns", "add", netns)
            stack.callback(run, "ip", "netns", "del", netns)
            for scope in ("all", "default"):
                setting = f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"
                run("ip", "netns", "exec", netns, "sh", "-c", f"echo 1 >{setting}")
        peer = ["type", "veth", "peer", "name", "tester0", "netns", tester]
        run("ip", "link", "add", "dut0", "netns", dut, *size, *peer, *size)
        run("ip", "-n", dut, "link", "set", "dut0", "up")
        run("ip", "-n", tester, "link", "set", "tester0", "up")
        macs = [show_link(netns, ifname)["address"] for netns, ifname in ((dut, "dut0"), (tester, "tester0"))]
        yield Pair(agent, dut, tester, *macs)


def show_link(netns: str, ifname: str) -> Line:
    """What `ip -d link show` says about a port."""
    links: list[Line] = json.loads(run("ip", "-n", netns, "-d", "-j", "link", "show", "dev", ifname))
    return links[0]


@dataclass
class Agent:
    """One running `xdprepro-agent trial`, and every line it printed so far."""

    process: subprocess.Popen[str]
    lines: list[Line] = field(default_factory=list)

    def send(self, line: Line | str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
        self.process.stdin.flush()

    def command(self, name: str) -> None:
        self.send({"cmd": name})

    def wait_for(self, key: str) -> Line:
        """The next line with the key; an error line instead fails the test unless it is what was asked for."""
        assert self.process.stdout is not None
        for text in self.process.stdout:
            line: Line = json.loads(text)
            self.lines.append(line)
            if key in line:
                return line
            assert "error" not in line, line
        raise AssertionError(f"the agent ended before {key!r}; last lines: {self.lines[-3:]}")

    def end(self) -> int:
        """Exit status, after all that is left on standard output was read."""
        assert self.process.stdout is not None
        self.lines.extend(json.loads(text) for text in self.process.stdout)
        return self.process.wait(WAIT_S)

    def terminate(self) -> None:
        self.process.terminate()

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def samples(self, phase: str) -> list[Line]:
        return [line for line in self.lines if line.get("phase") == phase]

    def edge(self, name: str) -> dict[str, int]:
        """Counters of an edge by full name."""
        (edge,) = (line for line in self.lines if line.get("edge") == name)
        return {f"{s['source']}.{k}": v for s in edge["sources"] for k, v in s["counters"].items()}

    def moved(self) -> Counter[str]:
        """What the counters grew by between the edges."""
        start = self.edge("start")
        return Counter({name: value - start.get(name, 0) for name, value in self.edge("end").items()})


def total(counters: Counter[str], start: str, end: str) -> int:
    """Sum of the counters whose names start and end like that."""
    return sum(value for name, value in counters.items() if name.startswith(start) and name.endswith(end))


@contextmanager
def start_agent(pair: Pair, netns: str, spec: Line | str, *through: str) -> Iterator[Agent]:
    """An agent in a namespace with its spec sent, started `through` a command; killed at the end if it still runs."""
    argv = ["ip", "netns", "exec", netns, *through, str(pair.agent), "trial"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            agent = Agent(process)
            agent.send(spec)
            yield agent
        finally:
            process.kill()


def measure_spec(case: str, role: str = "sink", **changes: Any) -> Line:
    """A spec for dut0, of a case that is measured for 0.3 s."""
    return {
        "role": role,
        "case": case,
        "ifname": "dut0",
        "interval_s": 0.05,
        "sampler_cpu": CPU_SAMPLER,
        "attach_mode": "native",
        "settle_s": 0.1,
        "measure_s": 0.3,
        **changes,
    }


def xsk_part(**changes: Any) -> Line:
    """The `xsk` part of a spec, for both queues of dut0."""
    return {
        "bind_mode": "copy",
        "queues": [0, 1],
        "app_cpus": [CPU_SAMPLER],
        "wakeup": "need-wakeup",
        "batch": 64,
        "ring_rx": 2048,
        "ring_fill": 2048,
        "frames": 2048,
        "frame_size": 2048,
        **changes,
    }


def generate_spec(pair: Pair, *, frame_len: int = 60, flows: int = 1, **changes: Any) -> Line:
    """A spec for tester0 that sends to dut0."""
    return {
        "role": "generate",
        "ifname": "tester0",
        "interval_s": 0.05,
        "sampler_cpu": CPU_SAMPLER,
        "attach_mode": "native",
        "generator": "live-frames",
        "cpus": [CPU_PACKETS],
        "batch": 64,
        "count": 0,
        "frame": {"dst_mac": pair.dut_mac, "src_mac": pair.tester_mac, "frame_len": frame_len, "flows": flows},
        **changes,
    }


def run_trial(pair: Pair, dut_line: Line, tester_line: Line) -> tuple[Agent, Agent]:
    """A whole trial in the protocol's order; both agents end well."""
    with ExitStack() as stack:
        dut = stack.enter_context(start_agent(pair, pair.dut, dut_line))
        dut.wait_for("ready")
        tester = stack.enter_context(start_agent(pair, pair.tester, tester_line))
        tester.wait_for("ready")
        dut.command("go")
        tester.command("go")
        dut.wait_for("measured")
        if not tester_line["count"]:
            tester.command("stop")
        tester.wait_for("stopped")
        dut.command("stop")
        dut.wait_for("drained")
        tester.command("finish")
        dut.command("finish")
        assert tester.end() == 0, tester.lines[-1]
        assert dut.end() == 0, dut.lines[-1]
        return dut, tester


def run_transmit(pair: Pair, dut_line: Line, **changes: Any) -> tuple[Agent, Agent]:
    """A whole trial in which dut0 sends and tester0 drops; both agents end well."""
    tester_line = measure_spec("xdp.drop.no-touch", **{"ifname": "tester0", "measure_s": 0.1, **changes})
    with ExitStack() as stack:
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
        dut.command("finish")
        tester.command("finish")
        assert dut.end() == 0, dut.lines[-1]
        assert tester.end() == 0, tester.lines[-1]
        return dut, tester

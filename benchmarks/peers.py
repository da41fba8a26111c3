# SPDX-License-Identifier: GPL-2.0-or-later
"""Our cases beside those of xdp-bench, xdpsock and xdp-trafficgen and beside bare programs, interleaved on one lab.

    .venv/bin/xdprepro up veth
    .venv/bin/python benchmarks/peers.py --lab veth --xdp-bench /usr/sbin/xdp-bench --xdpsock ./xdpsock

A bare program does what the case must do and returns its action, but counts nothing: it is the limit. No contestant is
measured by its own counters: what tells each operation's rate is in OPS. A command may have arguments.
"""

import argparse
import json
import os
import random
import re
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xdprepro import cmd, intervals, provision, stats
from xdprepro.bench import resolve_generator
from xdprepro.cases import Case
from xdprepro.errors import XdpreproError
from xdprepro.lab import Host, Lab
from xdprepro.sample import format_agent_error, parse_stream
from xdprepro.specs import Cpus, make_dut_spec, make_tester_spec, plan_cpus
from xdprepro.trial import AGENT, ANSWER_S, read_probe


@dataclass(frozen=True)
class Op:
    """An operation: our case, the bare one, and what other programs are told; `rate` is a key of RATES.

    {port}, {egress}, {queue} and {cpu} are filled in.
    """

    case: str
    rate: str = "accepted"
    bare: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    peers: Mapping[str, str] = field(default_factory=dict)

    @property
    def needs_egress(self) -> bool:
        """Whether packets leave by another port, as xdp-bench cannot redirect to the one it receives on."""
        return any("{egress}" in words for words in self.peers.values())


NATIVE = "-m native -i 60"
SOCKET = "-q {queue} -N -c -n 60"
OPS = {
    "drop": Op("xdp.drop.no-touch", bare="bare.drop", peers={"xdp-bench": f"drop {{port}} {NATIVE}"}),
    "tx": Op("xdp.tx.swap-macs", bare="bare.tx.swap-macs", peers={"xdp-bench": f"tx {{port}} {NATIVE}"}),
    "redirect": Op("xdp.redirect.swap-macs", peers={"xdp-bench": f"redirect {{port}} {{egress}} {NATIVE}"}),
    "redirect-map": Op(
        "xdp.redirect-map.swap-macs",
        bare="bare.redirect-map.swap-macs",
        peers={"xdp-bench": f"redirect-map {{port}} {{egress}} {NATIVE}"},
    ),
    "redirect-cpu": Op(
        "xdp.redirect-cpu.no-touch",
        peers={"xdp-bench": f"redirect-cpu {{port}} -c {{cpu}} -p round-robin -r disabled {NATIVE}"},
    ),
    "xsk-drop": Op(
        "xsk.rxdrop",
        rate="redirected",
        peers={
            "xdp-bench": "xsk-drop {port} -q {queue} -C copy -A native -i 60",
            "xdpsock": f"-r -i {{port}} {SOCKET}",
        },
    ),
    "l2fwd": Op("xsk.l2fwd.swap-macs", rate="returned", peers={"xdpsock": f"-l -i {{port}} {SOCKET}"}),
    "txonly": Op(
        "xsk.txonly", rate="received", params={"frame_len": 64}, peers={"xdpsock": f"-t -i {{port}} -s 64 {SOCKET}"}
    ),
    "generate": Op(
        "",
        rate="sent",
        params={"frame_len": 66},
        peers={"xdp-trafficgen": "udp {port} -m {mac} -a fe80::2 -A fe80::1 -s 66 -t 1 -I 60"},
    ),
}
PEERS = ("xdp-bench", "xdpsock", "xdp-trafficgen")
# What a rate is taken from: the generator's frames that the kernel accepted; the packets that the DUT's driver says it
# redirected, so without those for which a ring had no room; and what a program of ours counts at the other end.
RATES = ("accepted", "redirected", "returned", "received", "sent")
SETTLE_S = 0.2
EGRESS = "dut1"
COUNTED = r"xdp_prog\.cpu\d+\.rxq\d+\.XDP_DROP\.packets"
GENERATED = r"generator\.cpu\d+\.packets"
SINK = {
    "role": "sink",
    "case": "xdp.drop.no-touch",
    "attach_mode": "native",
    "settle_s": 600.0,
    "measure_s": 1.0,
    "interval_s": 1.0,
    "sampler_cpu": 0,
}
COUNTING = SINK | {"interval_s": 0.02}


@dataclass(frozen=True)
class Bench:
    """What is the same for all contestants."""

    lab: Lab
    cpus: Cpus
    generator: str
    frame_len: int
    measure_s: float
    peers: Mapping[str, list[str]]

    @property
    def queue(self) -> int:
        """Where the packets of the generator arrive: a veth port has the queue of the CPU that sends."""
        return self.cpus.generators[0] % self.lab.queues

    def contestants(self, op: str) -> list[str]:
        """Those that do this operation, ours first."""
        others = [name for name in OPS[op].peers if name in self.peers]
        return ["ours", *(["bare"] if OPS[op].bare else []), *others]


@dataclass(frozen=True)
class Result:
    pps: float
    attempted: int
    tx_dropped: int


def main() -> None:
    """Measure every operation in rounds of random order, print a table or JSON."""
    options = parse_options()
    lab = provision.load_lab(options.lab)
    with provision.start_lock(lab):
        dut, tester = read_probe(lab.dut), read_probe(lab.tester)
        case = resolve_generator(Case(OPS["drop"].case, frame_len=options.frame_len), tester)
        bench = Bench(
            lab,
            plan_cpus(dut["cpus"], case),
            case.generator,
            options.frame_len,
            options.measure,
            {name: shlex.split(command) for name in PEERS if (command := getattr(options, name.replace("-", "_")))},
        )
        ops = options.op or [op for op in OPS if len(bench.contestants(op)) > 1]
        results = measure(bench, ops, options.rounds, random.Random(options.seed))
    print_results(bench, results, as_json=options.json)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", default="veth", help="a lab that is up (veth)")
    for name, which in zip(PEERS, ("xdp-tools 1.6 or newer", "bpf-examples or Linux", "xdp-tools"), strict=True):
        parser.add_argument(f"--{name}", metavar="CMD", help=f"{name} of {which}; without it, it takes no part")
    parser.add_argument("--op", action="append", choices=OPS, help="only this operation; may be repeated")
    parser.add_argument("--rounds", type=int, default=10, help="trials of each contestant (10)")
    parser.add_argument("--measure", type=float, default=1.0, metavar="S", help="seconds of each trial (1)")
    parser.add_argument("--frame-len", type=int, default=60, help="bytes without FCS (60)")
    parser.add_argument("--seed", type=int, default=1, help="of the order (1)")
    parser.add_argument("--json", action="store_true", help="every trial, as JSON")
    return parser.parse_args()


def measure(bench: Bench, ops: list[str], rounds: int, rng: random.Random) -> dict[str, dict[str, list[Result]]]:
    """Results by operation and contestant; each round has every contestant of every operation once, in a new order."""
    results: dict[str, dict[str, list[Result]]] = {op: {name: [] for name in bench.contestants(op)} for op in ops}
    for number in range(rounds):
        cells = [(op, name) for op in ops for name in results[op]]
        for op, name in rng.sample(cells, len(cells)):
            results[op][name].append(run_one(bench, op, name))
        print(f"round {number + 1} of {rounds} done", file=sys.stderr)
    return results


def run_one(bench: Bench, op: str, name: str) -> Result:
    """One trial: this contestant at its end, ours at the other, for SETTLE_S and measure_s."""
    start = start_agent if name in ("ours", "bare") else start_peer
    with ExitStack() as stack:
        if OPS[op].rate == "sent":
            sink = stack.enter_context(start_sink(bench.lab.dut.netns, COUNTING | {"ifname": bench.lab.dut.ifname}))
            if name == "ours":
                return generate(bench, op)
            stack.enter_context(start(bench, op, name))
            return listen_to_sink(bench, sink)
        if OPS[op].rate == "received":
            spec = COUNTING | {"ifname": bench.lab.tester.ifname}
            sink = stack.enter_context(start_sink(bench.lab.tester.netns, spec))
            stack.enter_context(start(bench, op, name))
            return listen_to_sink(bench, sink)
        if OPS[op].needs_egress:
            stack.enter_context(start_second_pair(bench.lab))
        stack.enter_context(start(bench, op, name))
        return generate(bench, op)


@contextmanager
def start_second_pair(lab: Lab) -> Iterator[None]:
    """Another pair to redirect to, as xdp-bench cannot redirect to the port it receives on; its far end drops."""
    ip, queues = ["ip", "-n", str(lab.dut.netns)], ["numrxqueues", str(lab.queues), "numtxqueues", str(lab.queues)]
    peer = ["peer", "name", "tester1", *queues, "netns", str(lab.tester.netns)]
    cmd.run([*ip, "link", "add", EGRESS, *queues, "type", "veth", *peer])
    try:
        cmd.run([*ip, "link", "set", EGRESS, "up"])
        cmd.run(["ip", "-n", str(lab.tester.netns), "link", "set", "tester1", "up"])
        with start_sink(lab.tester.netns, SINK | {"ifname": "tester1"}):
            yield
    finally:
        cmd.run([*ip, "link", "del", EGRESS])


@contextmanager
def start_sink(netns: str | None, spec: dict[str, Any]) -> Iterator[cmd.Process]:
    """An agent that handles what comes until we have enough; its own measure phase is never reached."""
    with cmd.start_process([str(AGENT), "trial"], netns=netns) as agent:
        agent.send(spec)
        listen(agent, "ready")
        agent.send({"cmd": "go"})
        yield agent


@contextmanager
def start_agent(bench: Bench, op: str, name: str) -> Iterator[None]:
    """Our agent with our program or the bare one."""
    params = {"frame_len": bench.frame_len, **OPS[op].params}
    case = Case(OPS[op].case, settle_s=600.0, interval_s=1.0, **params)
    cpus = plan_cpus(sorted({*bench.cpus.apps, *bench.cpus.generators}), case)
    spec = make_dut_spec(bench.lab, case, cpus, [bench.queue])
    if name == "bare":
        spec["case"] = OPS[op].bare
    if OPS[op].needs_egress:
        spec["egress_ifname"] = EGRESS
    with start_sink(bench.lab.dut.netns, spec):
        yield


@contextmanager
def start_peer(bench: Bench, op: str, name: str) -> Iterator[None]:
    """A peer with its own program, on the CPU that ours has; the loop ends when the kernel shows it attached."""
    sends = OPS[op].rate == "sent"
    host = bench.lab.tester if sends else bench.lab.dut
    app = (bench.cpus.generators if sends else bench.cpus.apps)[0]
    filled = (
        OPS[op].peers[name].format(port=host.ifname, egress=EGRESS, queue=bench.queue, cpu=app, mac=bench.lab.dut.mac)
    )
    # Without libxdp's dispatcher, a second program in front of the first: ours is attached alone, too.
    argv = ["taskset", "-c", str(app), "env", "LIBXDP_SKIP_DISPATCHER=1", *bench.peers[name], *filled.split()]
    with ExitStack() as stack:
        # xdpsock of Linux 5.10 leaves its program where it was.
        stack.callback(cmd.run, ["ip", "link", "set", host.ifname, "xdpdrv", "off"], netns=host.netns, check=False)
        peer = stack.enter_context(cmd.start_process(argv, netns=host.netns))
        stack.callback(os.kill, peer.pid, signal.SIGINT)  # what they know, and sooner than the end of their stdin
        deadline_s = time.monotonic() + ANSWER_S
        # Not by the agent's probe, which attaches programs itself to see whether it can.
        while not sends and not has_program(host):
            if time.monotonic() > deadline_s:
                raise XdpreproError(
                    f"{shlex.join(argv)} attached nothing within {ANSWER_S:.0f} s: {peer.stderr.strip()}"
                )
            time.sleep(0.05)
        yield


def has_program(host: Host) -> bool:
    """Whether any XDP program is attached to a port."""
    return "xdp" in json.loads(cmd.run(["ip", "-j", "link", "show", host.ifname], netns=host.netns).stdout)[0]


def listen_to_sink(bench: Bench, sink: cmd.Process) -> Result:
    """The rate of what arrives at our program, after SETTLE_S."""
    end_s = time.monotonic() + SETTLE_S + bench.measure_s
    seen: list[tuple[int, int]] = []
    while (left_s := end_s - time.monotonic()) > 0:
        said = cmd.read_any({"sink": sink}, left_s)
        if said and "phase" in said[1]:
            counters = parse_stream([said[1]]).samples[0]
            seen.append((counters.t1_ns, stats.sum_counters(counters.counters, COUNTED)))
    first = next(one for one in seen if one[0] >= seen[0][0] + SETTLE_S * 1e9)
    pps = (seen[-1][1] - first[1]) / (seen[-1][0] - first[0]) * 1e9
    if not pps:
        raise XdpreproError("nothing arrived at the sink")
    return Result(pps, 0, 0)


def read_redirected(host: Host) -> tuple[int, int]:
    """When, and how many packets veth redirected to somebody who had room."""
    text = cmd.run(["ethtool", "-S", host.ifname], netns=host.netns).stdout
    return time.monotonic_ns(), sum(int(number) for number in re.findall(r"rx_queue_\d+_xdp_redirect: (\d+)", text))


def generate(bench: Bench, op: str) -> Result:
    """Send for SETTLE_S + measure_s and take the rate of the samples after SETTLE_S."""
    frame_len = OPS[op].params.get("frame_len", bench.frame_len)
    case = Case(OPS["drop"].case, frame_len=frame_len, generator=bench.generator, interval_s=0.02)
    redirected: list[tuple[int, int]] = []
    messages: list[Mapping[str, Any]] = []
    with cmd.start_process([str(AGENT), "trial"], netns=bench.lab.tester.netns) as agent:
        agent.send(make_tester_spec(bench.lab, case, bench.cpus))
        messages += listen(agent, "ready")
        agent.send({"cmd": "go"})
        start_s = time.monotonic()
        end_s = start_s + SETTLE_S + bench.measure_s
        while (left_s := end_s - time.monotonic()) > 0:
            if said := cmd.read_any({"tester": agent}, left_s):
                messages.append(said[1])
            if OPS[op].rate == "redirected" and not redirected and time.monotonic() > start_s + SETTLE_S:
                redirected.append(read_redirected(bench.lab.dut))
        if redirected:
            redirected.append(read_redirected(bench.lab.dut))
        for order, answer in (("stop", "stopped"), ("finish", "done")):
            agent.send({"cmd": order})
            messages += listen(agent, answer)
    stream = parse_stream(messages)
    window = [s for s in stream.samples if s.t1_ns >= stream.samples[0].t0_ns + SETTLE_S * 1e9 and s.phase == "measure"]
    first, last = window[0], window[-1]
    delta = stream.delta()
    attempted, tx_dropped = stats.sum_counters(delta, GENERATED), delta["netdev.tx_dropped"]
    if redirected:
        (t0_ns, before), (t1_ns, after) = redirected
        return Result((after - before) / (t1_ns - t0_ns) * 1e9, attempted, tx_dropped)
    pattern = COUNTED if OPS[op].rate == "returned" else GENERATED
    moved = stats.sum_counters(last.counters, pattern) - stats.sum_counters(first.counters, pattern)
    if OPS[op].rate != "returned":
        moved = round(moved * (1 - tx_dropped / attempted))
    return Result(moved / (last.t1_ns - first.t1_ns) * 1e9, attempted, tx_dropped)


def listen(agent: cmd.Process, word: str) -> list[dict[str, Any]]:
    """All messages up to the one with the word; an error of the agent ends the benchmark."""
    messages: list[dict[str, Any]] = []
    while not messages or word not in messages[-1]:
        messages.append(agent.read(ANSWER_S))
        if "error" in messages[-1]:
            raise XdpreproError(format_agent_error(messages[-1]["error"]))
    return messages


def print_results(bench: Bench, results: Mapping[str, Mapping[str, list[Result]]], *, as_json: bool) -> None:
    """Rates, and our ratio to each other contestant with its 95 % interval over rounds."""
    rows = [ratio_row(op, name, trials, by_name) for op, by_name in results.items() for name, trials in by_name.items()]
    if as_json:
        print(json.dumps({"generator": bench.generator, "frame_len": bench.frame_len, "rows": rows}, indent=2))
        return
    print(f"generator {bench.generator}, frame_len {bench.frame_len}, lab {bench.lab.name}\n")
    print(f"{'operation':14}{'contestant':12}{'Mpps':>8}{'sd %':>7}{'tx_dropped %':>14}  ours / this one [95 %]")
    for row in rows:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
        figures = f"{row['mpps']:8.2f}{row['sd_pct']:7.1f}{row['tx_dropped_pct']:14.3f}"
        print(f"{row['operation']:14}{row['contestant']:12}{figures}  {ratio}")


def ratio_row(op: str, name: str, trials: list[Result], by_name: Mapping[str, list[Result]]) -> dict[str, Any]:
    """One contestant; the ratio is of geometric means over rounds, paired, as a round is a moment of this machine."""
    pps = np.array([trial.pps for trial in trials])
    row: dict[str, Any] = {
        "operation": op,
        "contestant": name,
        "mpps": float(pps.mean() / 1e6),
        "sd_pct": float(pps.std(ddof=1) / pps.mean() * 100) if len(pps) > 1 else 0.0,
        "tx_dropped_pct": 100 * sum(t.tx_dropped for t in trials) / max(1, sum(t.attempted for t in trials)),
        "pps": pps.tolist(),
        "ratio": None,
    }
    if name != "ours" and len(pps) > 1:
        ours = np.array([trial.pps for trial in by_name["ours"]])
        logs = intervals.paired_interval(np.log(pps), np.log(ours), level=0.95)
        row |= {
            key: float(np.exp(value)) for key, value in zip(("ratio", "low", "high"), interval_of(logs), strict=True)
        }
    return row


def interval_of(difference: intervals.Difference) -> tuple[float, float, float]:
    return difference.delta, difference.low, difference.high


if __name__ == "__main__":
    try:
        main()
    except XdpreproError as error:
        sys.exit(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))

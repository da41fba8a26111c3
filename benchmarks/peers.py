# SPDX-License-Identifier: GPL-2.0-or-later
"""Our programs beside xdp-bench's and beside bare ones, interleaved on one lab, one generator and one way of counting.

    .venv/bin/xdprepro up veth
    .venv/bin/python benchmarks/peers.py --lab veth --xdp-bench /usr/sbin/xdp-bench

A bare program does what the case must do and returns its action, but counts nothing: it is the limit. The rate of each
contestant is taken at the generator, from the frames that the kernel accepted from it, so that none is measured by its
own counters; the share that was refused is shown beside. --xdp-bench may be a command with arguments.
"""

import argparse
import json
import random
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdprepro import cmd, provision, stats
from xdprepro.bench import resolve_generator
from xdprepro.cases import Case
from xdprepro.errors import XdpreproError
from xdprepro.lab import Lab
from xdprepro.sample import format_agent_error, parse_stream
from xdprepro.specs import Cpus, make_dut_spec, make_tester_spec, plan_cpus
from xdprepro.trial import AGENT, ANSWER_S, read_probe

OURS = {"drop": "xdp.drop.no-touch", "tx": "xdp.tx.swap-macs", "redirect-map": "xdp.redirect-map.swap-macs"}
BARE = {"drop": "bare.drop", "tx": "bare.tx.swap-macs", "redirect-map": "bare.redirect-map.swap-macs"}
SETTLE_S = 0.2
EGRESS = "dut1"
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


@dataclass(frozen=True)
class Bench:
    """What is the same for all contestants."""

    lab: Lab
    cpus: Cpus
    generator: str
    frame_len: int
    measure_s: float
    xdp_bench: list[str]


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
        case = resolve_generator(Case(OURS["drop"], frame_len=options.frame_len), tester)
        bench = Bench(
            lab,
            plan_cpus(dut["cpus"], case),
            case.generator,
            options.frame_len,
            options.measure,
            shlex.split(options.xdp_bench or ""),
        )
        results = measure(bench, options.op, options.rounds, random.Random(options.seed))
    print_results(bench, results, as_json=options.json)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", default="veth", help="a lab that is up (veth)")
    parser.add_argument(
        "--xdp-bench", metavar="CMD", help="xdp-bench of xdp-tools 1.6 or newer; without it, ours and bare only"
    )
    parser.add_argument("--op", action="append", choices=OURS, help="only this operation; may be repeated")
    parser.add_argument("--rounds", type=int, default=10, help="trials of each contestant (10)")
    parser.add_argument("--measure", type=float, default=1.0, metavar="S", help="seconds of each trial (1)")
    parser.add_argument("--frame-len", type=int, default=60, help="bytes without FCS (60)")
    parser.add_argument("--seed", type=int, default=1, help="of the order (1)")
    parser.add_argument("--json", action="store_true", help="every trial, as JSON")
    options = parser.parse_args()
    options.op = options.op or list(OURS)
    return options


def measure(bench: Bench, ops: list[str], rounds: int, rng: random.Random) -> dict[str, dict[str, list[Result]]]:
    """Results by operation and contestant; each round has every contestant of every operation once, in a new order."""
    contestants = ["ours", "bare", *(["xdp-bench"] if bench.xdp_bench else [])]
    results: dict[str, dict[str, list[Result]]] = {op: {name: [] for name in contestants} for op in ops}
    for number in range(rounds):
        cells = [(op, name) for op in ops for name in contestants]
        for op, name in rng.sample(cells, len(cells)):
            results[op][name].append(run_one(bench, op, name))
        print(f"round {number + 1} of {rounds} done", file=sys.stderr)
    return results


def run_one(bench: Bench, op: str, name: str) -> Result:
    """One trial: the program of this contestant on the DUT, the generator for SETTLE_S and measure_s."""
    start = start_peer if name == "xdp-bench" else start_agent
    with ExitStack() as stack:
        if op == "redirect-map":
            stack.enter_context(start_second_pair(bench.lab))
        stack.enter_context(start(bench, op, name))
        return generate(bench)


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
def start_sink(netns: str | None, spec: dict[str, Any]) -> Iterator[None]:
    """An agent that handles what comes until we have enough; its own measure phase is never reached."""
    with cmd.start_process([str(AGENT), "trial"], netns=netns) as agent:
        agent.send(spec)
        listen(agent, "ready")
        agent.send({"cmd": "go"})
        yield


@contextmanager
def start_agent(bench: Bench, op: str, name: str) -> Iterator[None]:
    """Our agent with our program or the bare one."""
    case = Case(OURS[op], frame_len=bench.frame_len, settle_s=600.0, interval_s=1.0)
    spec = make_dut_spec(bench.lab, case, bench.cpus, []) | {"case": (OURS if name == "ours" else BARE)[op]}
    if op == "redirect-map":
        spec["egress_ifname"] = EGRESS
    with start_sink(bench.lab.dut.netns, spec):
        yield


@contextmanager
def start_peer(bench: Bench, op: str, name: str) -> Iterator[None]:
    """xdp-bench with its own program; the loop ends when the kernel shows it attached."""
    host = bench.lab.dut
    ports = [host.ifname, EGRESS] if op == "redirect-map" else [host.ifname]
    # Without libxdp's dispatcher, a second program in front of the first: ours is attached alone, too.
    argv = ["env", "LIBXDP_SKIP_DISPATCHER=1", *bench.xdp_bench, op, *ports, "-m", "native", "-i", "60"]
    with cmd.start_process(argv, netns=host.netns) as peer:
        deadline_s = time.monotonic() + ANSWER_S
        # Not by the agent's probe, which attaches programs itself to see whether it can.
        while "xdp" not in json.loads(cmd.run(["ip", "-j", "link", "show", host.ifname], netns=host.netns).stdout)[0]:
            if time.monotonic() > deadline_s:
                raise XdpreproError(
                    f"{shlex.join(argv)} attached nothing within {ANSWER_S:.0f} s: {peer.stderr.strip()}"
                )
            time.sleep(0.05)
        yield


def generate(bench: Bench) -> Result:
    """Send for SETTLE_S + measure_s and take the rate of the samples after SETTLE_S."""
    case = Case(OURS["drop"], frame_len=bench.frame_len, generator=bench.generator, interval_s=0.02)
    messages: list[Mapping[str, Any]] = []
    with cmd.start_process([str(AGENT), "trial"], netns=bench.lab.tester.netns) as agent:
        agent.send(make_tester_spec(bench.lab, case, bench.cpus))
        messages += listen(agent, "ready")
        agent.send({"cmd": "go"})
        end_s = time.monotonic() + SETTLE_S + bench.measure_s
        while (left_s := end_s - time.monotonic()) > 0:
            if said := cmd.read_any({"tester": agent}, left_s):
                messages.append(said[1])
        for order, answer in (("stop", "stopped"), ("finish", "done")):
            agent.send({"cmd": order})
            messages += listen(agent, answer)
    stream = parse_stream(messages)
    window = [s for s in stream.samples if s.t1_ns >= stream.samples[0].t0_ns + SETTLE_S * 1e9 and s.phase == "measure"]
    first, last = window[0], window[-1]
    delta = stream.delta()
    attempted, tx_dropped = stats.sum_counters(delta, GENERATED), delta["netdev.tx_dropped"]
    handed_over = stats.sum_counters(last.counters, GENERATED) - stats.sum_counters(first.counters, GENERATED)
    accepted = handed_over * (1 - tx_dropped / attempted)
    return Result(accepted / (last.t1_ns - first.t1_ns) * 1e9, attempted, tx_dropped)


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
        logs = stats.paired_interval(np.log(pps), np.log(ours), level=0.95)
        row |= {
            key: float(np.exp(value)) for key, value in zip(("ratio", "low", "high"), interval_of(logs), strict=True)
        }
    return row


def interval_of(difference: stats.Difference) -> tuple[float, float, float]:
    return difference.delta, difference.low, difference.high


if __name__ == "__main__":
    try:
        main()
    except XdpreproError as error:
        sys.exit(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))

# SPDX-License-Identifier: GPL-2.0-or-later
"""What sampling costs: packets of trials that sample often beside those of trials that sample at both ends only.

    .venv/bin/xdprepro up veth
    .venv/bin/python benchmarks/sampling.py --lab veth

Both ends of a trial sample at the same rate. Samples are taken on a CPU that handles no packets (where there is one),
so what they cost the packets are cache lines. At 200 a second that is twenty times what it is at ten, which is how a
cost can be seen that is far below the noise: `cost at 10 Hz` is a twentieth of what 200 Hz cost.

On veth a packet is received in the context of the thread that sends it, or of ksoftirqd on its CPU. What is compared is
the CPU time of these two for each packet, in which what else runs on that CPU has no part; the rate is shown beside.
"""

import argparse
import json
import os
import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from xdprepro import intervals, provision, stats
from xdprepro.bench import resolve_generator
from xdprepro.cases import Case
from xdprepro.errors import XdpreproError
from xdprepro.lab import Lab
from xdprepro.sample import Trial, TrialKey, parse_stream
from xdprepro.specs import Cpus, plan_cpus
from xdprepro.trial import read_probe, run_trial

RATES_HZ = (0, 10, 200)
LEVEL = 0.95
KTHREADD = 2  # the parent of kernel threads


@dataclass(frozen=True)
class Result:
    ns: float  # CPU time for a packet
    pps: float
    sampler_ns: int  # CPU time of the DUT's sampler between its edges
    samples: int  # in the measure phase


def main() -> None:
    """Measure every rate of sampling in rounds of random order, print a table or JSON."""
    options = parse_options()
    lab = provision.load_lab(options.lab)
    with provision.start_lock(lab):
        dut, tester = read_probe(lab.dut), read_probe(lab.tester)
        case = resolve_generator(Case(options.case, settle_s=0.2, measure_s=options.measure), tester)
        cpus = plan_cpus(dut["cpus"], case)
        results = measure(lab, case, cpus, options.rounds, random.Random(options.seed))
    rows = [describe(hz, results) for hz in RATES_HZ]
    if options.json:
        print(json.dumps({"case": case.id, "rows": rows}, indent=2))
        return
    print(f"{case.id}, lab {lab.name}\n")
    heads = f"{'samples/s':>10}{'Mpps':>8}{'ns':>8}{'sd %':>7}{'sampler us':>12}"
    print(f"{heads}  {'ns / ns without [95 %]':28}cost at 10 Hz, % [95 %]")
    for row in rows:
        print(format_row(row))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", default="veth", help="a lab that is up (veth)")
    parser.add_argument("--case", default="xdp.drop.no-touch", help="what is measured (xdp.drop.no-touch)")
    parser.add_argument("--rounds", type=int, default=20, help="trials of each rate (20)")
    parser.add_argument("--measure", type=float, default=1.0, metavar="S", help="seconds of each trial (1)")
    parser.add_argument("--seed", type=int, default=1, help="of the order (1)")
    parser.add_argument("--json", action="store_true", help="every trial, as JSON")
    return parser.parse_args()


def measure(lab: Lab, case: Case, cpus: Cpus, rounds: int, rng: random.Random) -> dict[int, list[Result]]:
    """Results by rate; each round has every rate once, in a new order."""
    results: dict[int, list[Result]] = {hz: [] for hz in RATES_HZ}
    for number in range(rounds):
        for hz in rng.sample(RATES_HZ, len(RATES_HZ)):
            results[hz].append(run_one(lab, replace(case, interval_s=1 / hz if hz else case.measure_s), cpus))
        print(f"round {number + 1} of {rounds} done", file=sys.stderr)
    return results


class Spent:
    """CPU time of the tasks that handle the packets, read as the measure phase begins and as it ends."""

    def __init__(self, cpu: int) -> None:
        self.names = {f"cpus.{cpu}", f"ksoftirqd/{cpu}"}
        self.tasks: list[Path] = []
        self.readings_ns: list[int] = []

    def hear(self, message: Mapping[str, Any]) -> None:
        if message.get("phase") == "measure" and not self.readings_ns:
            self.tasks = list(find_tasks(self.names))
            self.readings_ns.append(self.read_ns())
        elif "measured" in message:
            self.readings_ns.append(self.read_ns())

    def read_ns(self) -> int:
        return sum(int((task / "schedstat").read_text().split()[0]) for task in self.tasks)


def find_tasks(names: set[str]) -> Iterator[Path]:
    """The tasks of these names that are the kernel's, or of agents that were started here."""
    for task in Path("/proc").glob("[0-9]*/task/*"):
        with suppress(OSError):  # it has just ended
            parent = int((task / "stat").read_text().rpartition(")")[2].split()[1])
            if (task / "comm").read_text().strip() in names and parent in (KTHREADD, os.getpid()):
                yield task


def run_one(lab: Lab, case: Case, cpus: Cpus) -> Result:
    """One trial, as a suite runs it."""
    said: dict[str, list[Mapping[str, Any]]] = {"dut": [], "tester": []}
    spent = Spent(cpus.generators[0])

    def keep(side: str, message: Mapping[str, Any]) -> None:
        said[side].append(message)
        if side == "dut":
            spent.hear(message)

    run_trial(lab, case, cpus, [], keep)
    trial = Trial(TrialKey(case.id, 0, 0), 0, 0, "ok", "", parse_stream(said["dut"]), parse_stream(said["tester"]))
    samples = stats.measured(trial.dut.samples)
    first, last = (
        stats.sum_counters(one.counters, stats.rate_pattern(case.params())) for one in (samples[0], samples[-1])
    )
    if last <= first:
        raise XdpreproError(f"{case.id}: no packets in the measure phase")
    return Result(
        (spent.readings_ns[1] - spent.readings_ns[0]) / (last - first),
        (last - first) * 1e9 / (samples[-1].t1_ns - samples[0].t1_ns),
        trial.dut.delta()["threads.sampler.run_ns"],
        len(samples),
    )


def describe(hz: int, results: Mapping[int, list[Result]]) -> dict[str, Any]:
    """One rate beside none; the ratio is of geometric means over rounds, paired, as each is a moment of a machine."""
    ns = np.array([one.ns for one in results[hz]])
    row: dict[str, Any] = {
        "hz": hz,
        "mpps": float(np.mean([one.pps for one in results[hz]]) / 1e6),
        "ns": float(np.exp(np.log(ns).mean())),
        "sd_pct": float(ns.std(ddof=1) / ns.mean() * 100) if len(ns) > 1 else 0.0,
        "sampler_us": float(np.median([one.sampler_ns for one in results[hz]]) / 1e3),
        "samples": results[hz][0].samples,
        "trials": [one.ns for one in results[hz]],
        "ratio": None,
        "cost_pct": None,
    }
    if hz and len(ns) > 1:
        without = np.array([one.ns for one in results[0]])
        found = intervals.paired_interval(np.log(without), np.log(ns), level=LEVEL)
        row["ratio"] = [float(np.exp(value)) for value in (found.delta, found.low, found.high)]
        row["cost_pct"] = [100 * (value - 1) * 10 / hz for value in row["ratio"]]
    return row


def format_row(row: Mapping[str, Any]) -> str:
    """A line of the table."""
    figures = f"{row['hz']:10d}{row['mpps']:8.2f}{row['ns']:8.1f}{row['sd_pct']:7.1f}{row['sampler_us']:12.0f}"
    if row["ratio"] is None:
        return figures
    ratio, cost = ("{:.4f} [{:.4f}, {:.4f}]".format(*row[key]) for key in ("ratio", "cost_pct"))
    return f"{figures}  {ratio:28}{cost}"


if __name__ == "__main__":
    try:
        main()
    except XdpreproError as error:
        sys.exit(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))

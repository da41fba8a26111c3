# SPDX-License-Identifier: GPL-2.0-or-later
"""What sampling costs: the rate of trials that sample often beside trials that sample at both ends only.

    .venv/bin/xdprepro up veth
    .venv/bin/python benchmarks/sampling.py --lab veth

Both ends of a trial sample at the same rate. Samples are taken on a CPU that handles no packets (where there is one),
so what they cost the packets are cache lines. At 200 a second that is twenty times what it is at ten, which is how a
cost can be seen that is far below the noise: `cost at 10 Hz` is a twentieth of what 200 Hz cost.
"""

import argparse
import json
import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xdprepro import provision, stats
from xdprepro.bench import resolve_generator
from xdprepro.cases import Case
from xdprepro.errors import XdpreproError
from xdprepro.lab import Lab
from xdprepro.sample import Trial, TrialKey, parse_stream
from xdprepro.specs import Cpus, plan_cpus
from xdprepro.trial import read_probe, run_trial

RATES_HZ = (0, 10, 200)
LEVEL = 0.95


@dataclass(frozen=True)
class Result:
    pps: float
    sampler_ns: int  # CPU time of the DUT's sampler between its edges
    samples: int


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
    print(
        f"{'samples/s':>10}{'Mpps':>8}{'sd %':>7}{'sampler us':>12}  rate / rate without [95 %]      cost at 10 Hz, %"
    )
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


def run_one(lab: Lab, case: Case, cpus: Cpus) -> Result:
    """One trial, as a suite runs it."""
    said: dict[str, list[Mapping[str, Any]]] = {"dut": [], "tester": []}
    run_trial(lab, case, cpus, [], lambda side, message: said[side].append(message))
    trial = Trial(TrialKey(case.id, 0, 0), 0, 0, "ok", "", parse_stream(said["dut"]), parse_stream(said["tester"]))
    rate = stats.trial_rate(trial, case.params())
    if rate is None or not rate.packets:
        raise XdpreproError(f"{case.id}: no packets in the measure phase")
    return Result(rate.pps, trial.dut.delta()["threads.sampler.run_ns"], len(trial.dut.samples))


def describe(hz: int, results: Mapping[int, list[Result]]) -> dict[str, Any]:
    """One rate beside none; the ratio is of geometric means over rounds, paired, as each is a moment of a machine."""
    pps = np.array([one.pps for one in results[hz]])
    row: dict[str, Any] = {
        "hz": hz,
        "mpps": float(pps.mean() / 1e6),
        "sd_pct": float(pps.std(ddof=1) / pps.mean() * 100) if len(pps) > 1 else 0.0,
        "sampler_us": float(np.median([one.sampler_ns for one in results[hz]]) / 1e3),
        "samples": results[hz][0].samples,
        "pps": pps.tolist(),
        "ratio": None,
        "cost_pct": None,
    }
    if hz and len(pps) > 1:
        without = np.array([one.pps for one in results[0]])
        found = stats.paired_interval(np.log(without), np.log(pps), level=LEVEL)
        row["ratio"] = [float(np.exp(value)) for value in (found.delta, found.low, found.high)]
        # A ratio of rates turns around: the lowest ratio is the highest cost.
        row["cost_pct"] = [100 * (1 - row["ratio"][at]) * 10 / hz for at in (0, 2, 1)]
    return row


def format_row(row: Mapping[str, Any]) -> str:
    """A line of the table."""
    figures = f"{row['hz']:10d}{row['mpps']:8.2f}{row['sd_pct']:7.1f}{row['sampler_us']:12.0f}"
    if row["ratio"] is None:
        return figures
    ratio, cost = ("{:.4f} [{:.4f}, {:.4f}]".format(*row[key]) for key in ("ratio", "cost_pct"))
    return f"{figures}  {ratio:32}{cost}"


if __name__ == "__main__":
    try:
        main()
    except XdpreproError as error:
        sys.exit(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))

# SPDX-License-Identifier: GPL-2.0-or-later
"""What the ring benchmark tells beside its rate: how full the rings really were."""

from typing import Any

from xdprepro.stats import measured
from xdprepro.table import Column, Table, digits_cell
from xdprepro.view import RunView, TrialView, case_rates

EIGHTHS = 8


def ring_tables(view: RunView) -> list[Table]:
    """The table of rings, where the run has any."""
    case_ids = [case_id for case_id, params in view.run.cases.items() if params["case"].startswith("ring.")]
    return [ring_table(view, case_ids)] if case_ids else []


def ring_table(view: RunView, case_ids: list[str]) -> Table:
    """Entries a second, and the occupancy in the measure phases, for each case that has a usable trial."""
    columns = (
        Column("case_id", "case", words=True),
        Column("ops", "Mops", digits_cell(3, scale=1e-6)),
        Column("ns_per_entry", "ns/entry", digits_cell(1), interval="ns_interval"),
        Column("occupancy_pct", "full to eighths, % of looks", _join_cell, words=True),
        Column("slower", "slowed down", words=True),
    )
    notes = (
        "full to eighths: how often the consumer, every 64th time that it took entries, found the ring filled up to "
        "1/8, 2/8, ... all of it",
        "slowed down: this side works for another 50 ns on each entry",
    )
    return Table("rings", "Rings", columns, tuple(_row(view, case_id) for case_id in case_ids), notes)


def _row(view: RunView, case_id: str) -> dict[str, Any]:
    usable = [one for one in view.of_case(case_id) if one.usable]
    rates, params = case_rates(view, case_id), view.run.cases[case_id]
    estimate = rates.estimate()
    looks = [sum(_moved(one, f"occupancy_{eighth}") for one in usable) for eighth in range(EIGHTHS)]
    return {
        "case_id": case_id,
        "ops": rates.pps,
        "ns_per_entry": estimate.mean if estimate else None,
        "ns_interval": estimate.interval if estimate else None,
        "occupancy_pct": [100 * n / sum(looks) for n in looks] if any(looks) else None,
        "slower": {"producer": "consumer", "consumer": "producer"}.get(params["ring_faster"]),
    }


def _moved(one: TrialView, counter: str) -> int:
    """What a counter of the ring grew by in the measure phase."""
    samples = measured(one.trial.dut.samples)
    first, last = (samples[i].counters.get(f"ring.{counter}", 0) for i in (0, -1))
    return last - first


def _join_cell(shares: list[float]) -> str:
    return " ".join(f"{share:.0f}" for share in shares)

# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases without XDP from end to end: what Python asks for, an agent measures, and every packet or entry is found."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_lab import Pair, make_pair
from conftest import need

from xdprepro.cases import Case
from xdprepro.closure import close_losses
from xdprepro.kinds import CASE_KINDS
from xdprepro.lab import Host, Lab
from xdprepro.sample import SIDES, Trial, TrialKey, parse_stream
from xdprepro.specs import plan_cpus
from xdprepro.stats import trial_rate
from xdprepro.trial import run_trial

pytestmark = pytest.mark.netns

LAYERS = ("pkt-v2", "pkt-v3", "udp", "tc", "ring")
CASES = [name for name in CASE_KINDS if name.partition(".")[0] in LAYERS]


@pytest.fixture(scope="module")
def lab(agent: Path, root_user: None) -> Iterator[Lab]:
    with make_pair(agent) as pair:
        yield lab_of(pair)


def lab_of(pair: Pair) -> Lab:
    """The pair as an inventory would describe it."""
    dut = Host("dut", "dut", "dut0", pair.dut_mac, pair.dut, None)
    tester = Host("tester", "tester", "tester0", pair.tester_mac, pair.tester, None)
    return Lab("pair", "veth", 2, 1500, dut, tester, Path("pair"))


def measure(lab: Lab, case: Case) -> Trial:
    """One trial of the case, which ends well."""
    said: dict[str, list[Any]] = {side: [] for side in SIDES}
    cpus = plan_cpus(sorted(os.sched_getaffinity(0)), case)
    run_trial(lab, case, cpus, range(lab.queues), lambda side, message: said[side].append(message))
    dut, tester = (parse_stream(said[side]) for side in SIDES)
    return Trial(TrialKey(case.id, 0, 0), 0, 0, "ok", "", dut, tester)


@pytest.mark.parametrize("name", CASES)
def test_trial_is_closed_and_has_a_rate(lab: Lab, name: str) -> None:
    case = Case(name, generator="af-packet", settle_s=0.05, measure_s=0.2, interval_s=0.05)
    need(case.role != "ring" or len(os.sched_getaffinity(0)) > 1, "a ring needs two CPUs")
    trial = measure(lab, case)
    closure = close_losses(trial, case.params(), dut_driver="veth", tester_driver="veth")
    assert closure.reasons == ()
    assert closure.accounted == closure.accepted > 0
    rate = trial_rate(trial, case.params())
    assert rate is not None
    assert rate.packets > 0

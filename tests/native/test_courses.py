# SPDX-License-Identifier: GPL-2.0-or-later
"""Whole trials as a run has them, from a case of a suite to its balance: every course, and what parameters come to."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from agent_lab import Pair, make_pair, run

from xdprepro import validity
from xdprepro.bench import resolve_generator
from xdprepro.cases import Case, make_case
from xdprepro.closure import close_losses
from xdprepro.lab import Host, Lab
from xdprepro.needs import find_missing
from xdprepro.sample import Trial, TrialKey, parse_stream
from xdprepro.specs import plan_cpus
from xdprepro.trial import read_probe, run_trial

SHORT: dict[str, Any] = {"settle_s": 0.02, "measure_s": 0.06, "interval_s": 0.01}
JUMBO: dict[str, Any] = {"frame_len": 9000, "generator": "af-packet"}
# What speaks against a trial as short as this, on a machine that does other things.
OF_THE_MACHINE = {"no_packets", "load_gap", "pacing_off"}


@pytest.fixture(scope="module")
def pairs(agent: Path) -> Iterator[dict[int, Pair]]:
    """A pair of ports for each MTU."""
    with ExitStack() as stack:
        found = {mtu: stack.enter_context(make_pair(agent)) for mtu in (1500, 9000)}
        for netns, port in ((found[9000].dut, "dut0"), (found[9000].tester, "tester0")):
            run("ip", "-n", netns, "link", "set", port, "mtu", "9000")
        yield found


def lab_of(pair: Pair, mtu: int) -> Lab:
    return Lab(
        name="pair",
        kind="veth",
        queues=2,
        mtu=mtu,
        dut=Host("dut", "dut", "dut0", pair.dut_mac, pair.dut, None),
        tester=Host("tester", "tester", "tester0", pair.tester_mac, pair.tester, None),
        path=Path("inventory/pair"),
    )


CASES: list[dict[str, Any]] = [
    {"case": "xdp.drop.no-touch"},
    {"case": "xdp.tx.swap-macs", "access": "load-bytes"},
    {"case": "xdp.tx.swap-macs", "load": "closed", "outstanding": 4, "generator": "af-packet"},
    {"case": "xdp.drop.no-touch", "load": "fixed", "rate_pps": 20000, "generator": "af-packet"},
    {"case": "xdp.redirect-cpu.no-touch", "remote": "redirect", "select": "l4-hash", "flows": 8},
    {"case": "xdp.redirect-multi.swap-macs", "fanout": 3},
    {"case": "xsk.txonly", "wakeup": "poll"},
    {"case": "xsk.l2fwd.swap-macs", "wakeup": "busy-poll", "xsk_sockets": 2, "shared_umem": True},
    {"case": "xdpxsk.l2fwd.lbfw", "wakeup": "poll", "flows": 10, "drop_share": 30},
    {"case": "pkt-v3.txonly"},
    {"case": "tc.redirect.swap-macs"},
    {"case": "stack.local"},
    {"case": "ring.ptr-ring-batch"},
    {"case": "xdp.tx.swap-macs", "frags": True, **JUMBO},
    {"case": "xsk.txonly", "wakeup": "poll", "frags": True, "frame_len": 9000},
    {"case": "tc.drop.no-touch", **JUMBO},
]


@pytest.mark.parametrize("params", CASES, ids=lambda params: make_case(params).id)
def test_a_case_of_a_suite_becomes_a_trial_that_closes(pairs: dict[int, Pair], params: dict[str, Any]) -> None:
    case = make_case({**params, **SHORT})
    mtu = 9000 if case.frame_len > 1500 else 1500
    lab = lab_of(pairs[mtu], mtu)
    dut, tester = read_probe(lab.dut), read_probe(lab.tester)
    case = resolve_generator(case, tester)
    if (missing := find_missing(case, dut, tester)) and "CPUs" in missing:
        pytest.skip(missing)
    assert missing == ""
    trial, stored = measure(lab, case, dut)
    closure = close_losses(trial, stored, dut_driver="veth", tester_driver="veth")
    assert closure.reasons == ()
    assert closure.accepted == closure.accounted > 0
    assert set(validity.excluding(validity.find_flags(trial, stored, closure))) <= OF_THE_MACHINE


def measure(lab: Lab, case: Case, dut: dict[str, Any]) -> tuple[Trial, dict[str, Any]]:
    """The trial, and the parameters as they would be stored with it."""
    cpus = plan_cpus(dut["cpus"], case)
    said: dict[str, list[Any]] = {"dut": [], "tester": []}
    run_trial(lab, case, cpus, range(dut["rx_queues"]), lambda side, message: said[side].append(message))
    streams = (parse_stream(said["dut"]), parse_stream(said["tester"]))
    return Trial(TrialKey(case.id, 0, 0), 0, 0, "ok", "", *streams), case.params() | {"cpus": asdict(cpus)}

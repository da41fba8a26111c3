# SPDX-License-Identifier: GPL-2.0-or-later
"""Every case that a guest can run, in one boot: each packet of a known number is found again, where it should be."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import ROOT

from xdprepro import validity
from xdprepro.closure import Closure, close_losses
from xdprepro.guest import Machine, boot
from xdprepro.guest_job import Cell, Said, Slot, case_params, counted, make_job, read_report
from xdprepro.kernels import find_kernel
from xdprepro.kinds import CASE_KINDS
from xdprepro.lab import Host, Lab
from xdprepro.passes import count_tracepoints
from xdprepro.places import CLASSES
from xdprepro.sample import Trial, TrialKey, parse_stream
from xdprepro.suite import parse_suite

pytestmark = pytest.mark.vm

PACKETS = 256  # fewer than the smallest queue or ring on their way, and a multiple of all numbers of flows
DEADLINE_S = 280.0
LAB = Lab(
    name="vm",
    kind="vm",
    queues=1,
    mtu=1500,
    dut=Host("dut", "dut", "dut0", "02:00:00:00:00:01", None, None),
    tester=Host("tester", "tester", "tester0", "02:00:00:00:00:02", None, None),
    path=Path("inventory/vm"),
    ports=("veth",),
    cpu="max",
    memory_mib=1024,
)
SUITE = parse_suite((ROOT / "tests/data/guest_all.toml").read_text(), "guest_all")
CELLS = {cell.id: cell for cell in (Cell(counted(case), "veth") for case in SUITE.cases)}
# What is not in the suite, and why.
CANNOT = {name: "a guest has one CPU, and a ring needs two threads at a time" for name in CASE_KINDS if "ring." in name}
# Where packets end that were not lost.
FINE = {"returned", "work_drop", "to_stack"}


@pytest.fixture(scope="module")
def trials(qemu: str, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Said]:
    """What the guest said of each case; nothing counts its instructions."""
    slots = [Slot(cell, 0, PACKETS) for cell in CELLS.values()]
    job = make_job(LAB, "veth", slots) | {"count": False, "probe": False}
    directory = tmp_path_factory.mktemp("all")
    done = boot(find_kernel("deb:6.12"), Machine("veth"), job, directory=directory, deadline_s=DEADLINE_S)
    assert done.failure is None, done.failure
    return {said.slot.cell.id: said for said in read_report(done.lines, slots).trials}


def balance(said: Said) -> tuple[Trial, Closure]:
    sides = {side: [message for name, message in said.lines if name == side] for side in ("dut", "tester")}
    trial = Trial(
        TrialKey(said.slot.cell.id, 0, 0),
        0,
        0,
        said.status,
        said.reason,
        parse_stream(sides["dut"]),
        parse_stream(sides["tester"]),
    )
    params = case_params(said.slot.cell, counting=True)
    return trial, close_losses(trial, params, dut_driver="veth", tester_driver="veth")


@pytest.mark.parametrize("case_id", CELLS)
def test_every_packet_of_a_case_is_where_it_should_be(trials: Mapping[str, Said], case_id: str) -> None:
    said = trials[case_id]
    assert (said.status, said.reason) == ("ok", "")
    trial, closure = balance(said)
    assert closure.reasons == ()
    assert (closure.accepted, closure.accounted) == (PACKETS, PACKETS)
    assert {name for name, _ in closure.terms} & CLASSES.keys() <= FINE
    flags = validity.find_flags(trial, case_params(said.slot.cell, counting=True), closure)
    assert set(validity.excluding(flags)) == {"no_count"}


@pytest.mark.parametrize("case_id", [case_id for case_id in CELLS if "lbfw" in case_id])
def test_a_quarter_is_dropped_by_the_access_list(trials: Mapping[str, Said], case_id: str) -> None:
    _, closure = balance(trials[case_id])
    dropped = [packets for name, packets in closure.terms if name in ("XDP_DROP", "work_drop")]
    assert dropped == [PACKETS // 4]


@pytest.mark.parametrize(
    ("case", "counter"),
    [("xdp.redirect-map.swap-macs", "devmap_xmit.sent"), ("xdp.redirect-cpu.no-touch", "cpumap_enqueue.processed")],
)
def test_tracepoints_see_every_packet(trials: Mapping[str, Said], case: str, counter: str) -> None:
    (case_id,) = (one for one in CELLS if one.startswith(case) and "pass-diagnostic" in one)
    trial, _ = balance(trials[case_id])
    assert trial.dut.ready["tracepoints"]["only_ours"]
    assert count_tracepoints(trial)[counter] == PACKETS


def test_a_case_that_is_not_here_has_a_reason() -> None:
    assert {cell.case.case for cell in CELLS.values()} | CANNOT.keys() == CASE_KINDS.keys()

# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs for guests: what is asked of them, and how their answers are sorted."""

from pathlib import Path
from typing import Any

import pytest

from xdprepro.cases import Case
from xdprepro.guest_job import Cell, counted, generators_for, make_job, plan_slots, read_report
from xdprepro.lab import Host, Lab

DROP = Case("xdp.drop.no-touch")
XSK = Case("xsk.rxdrop")
LAB = Lab(
    name="vm",
    kind="vm",
    queues=1,
    mtu=1500,
    dut=Host("dut", "dut", "dut0", "02:00:00:00:00:01", None, None),
    tester=Host("tester", "tester", "tester0", "02:00:00:00:00:02", None, None),
    path=Path("/labs/vm"),
    ports=("veth",),
    cpu="max",
    memory_mib=1024,
)


def test_counted_case_has_a_warm_up_a_short_and_a_long_window() -> None:
    slots = plan_slots([Cell(DROP, "veth")], counting=True)
    assert [slot.number for slot in slots] == [0, 1, 2]
    assert slots[0].packets == slots[1].packets < slots[2].packets


def test_packets_for_a_socket_fit_into_its_ring() -> None:
    slots = plan_slots([Cell(counted(XSK), "veth")], counting=True)
    assert max(slot.packets for slot in slots) < XSK.xsk_ring_rx


def test_application_does_not_spin_on_the_only_cpu() -> None:
    assert counted(XSK).wakeup == "poll"
    assert counted(DROP) == DROP


def test_counted_trial_names_its_window_and_takes_no_sample_within_it() -> None:
    job = make_job(LAB, "veth", plan_slots([Cell(DROP, "veth")], counting=True))
    assert job["count"]
    assert [trial["slot"] for trial in job["trials"]] == [0, 1, 2]
    assert [trial["tester"][0]["window"] for trial in job["trials"]] == [0, 1, 2]
    assert all(trial["dut"]["interval_s"] == trial["dut"]["measure_s"] for trial in job["trials"])


def test_a_case_that_transmits_sends_the_packets_and_the_tester_waits_for_them() -> None:
    [first, *_] = make_job(LAB, "veth", plan_slots([Cell(counted(Case("xsk.txonly")), "veth")], counting=True))[
        "trials"
    ]
    assert (first["dut"]["count"], first["dut"]["window"]) == (2048, 0)
    assert [tester["attach_mode"] for tester in first["tester"]] == ["native", "skb"]
    assert "count" not in first["tester"][0]
    assert first["tester"][0]["measure_s"] == first["dut"]["measure_s"] > 1000


@pytest.mark.parametrize("name", ["pkt-v2.rxdrop", "udp.rxdrop", "xdp.redirect-cpu.no-touch", "xsk.l2fwd.swap-macs"])
def test_packets_that_wait_for_another_task_are_fewer(name: str) -> None:
    slots = plan_slots([Cell(counted(Case(name)), "veth")], counting=True)
    assert max(slot.packets for slot in slots) < 2048


def test_timed_trial_has_the_times_of_its_case() -> None:
    job = make_job(LAB, "veth", plan_slots([Cell(DROP, "veth")], counting=False, trials=2))
    assert not job["count"]
    assert len(job["trials"]) == 2
    assert job["trials"][0]["dut"]["measure_s"] == DROP.measure_s
    assert job["trials"][0]["tester"][0]["count"] == 0


@pytest.mark.parametrize(
    ("case", "port", "generators"),
    [
        (DROP, "veth", ("live-frames", "af-packet")),
        (DROP, "virtio-net", ("af-packet",)),
        (Case("xdp.drop.no-touch", attach_mode="skb"), "veth", ("af-packet",)),
        (Case("xdp.drop.no-touch", generator="live-frames"), "virtio-net", ("live-frames",)),
    ],
)
def test_generators_are_tried_in_order(case: Case, port: str, generators: tuple[str, ...]) -> None:
    assert generators_for(case, port) == generators


@pytest.mark.parametrize(
    ("port", "ways"),
    [
        ("igb", [("native", "live-frames"), ("native", "af-packet"), ("skb", "af-packet")]),
        ("e1000e", [("skb", "af-packet")]),
    ],
)
def test_what_comes_back_is_counted_as_the_driver_can(port: str, ways: list[tuple[str, str]]) -> None:
    (trial, *_) = make_job(LAB, port, plan_slots([Cell(DROP, port)], counting=True))["trials"]
    assert [(spec["attach_mode"], spec["generator"]) for spec in trial["tester"]] == ways


def test_answers_keep_their_place_in_the_job_where_trials_before_them_were_skipped() -> None:
    slots = plan_slots([Cell(XSK, "veth"), Cell(DROP, "veth")], counting=False)
    lines: list[dict[str, Any]] = [
        {"guest": {"release": "6.1"}},
        {"probe": "dut", "msg": {"driver": "veth"}},
        {"trial_skip": 0, "reason": "DUT dut0 has no xsk copy"},
        {"trial": 1},
        {"slot": 1, "side": "dut", "msg": {"ready": True}},
        {"trial_end": 1, "status": "ok", "reason": ""},
        {"end": True},
    ]
    report = read_report(lines, slots)
    (said,) = report.trials
    assert (said.place, said.slot.cell.case, said.status) == (1, DROP, "ok")
    assert said.lines == [("dut", {"ready": True})]
    assert report.skipped == {slots[0].cell.id: "DUT dut0 has no xsk copy"}
    assert report.probes["dut"]["driver"] == "veth"


def test_trial_in_which_the_guest_ended_has_not_ended_itself() -> None:
    slots = plan_slots([Cell(DROP, "veth")], counting=False)
    (said,) = read_report([{"guest": {}}, {"trial": 0}], slots).trials
    assert not said.ended
    assert said.status == "interrupted"

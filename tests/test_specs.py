# SPDX-License-Identifier: GPL-2.0-or-later
"""What agents are told of each kind of case, and on which CPUs it runs."""

from pathlib import Path

import pytest

from xdprepro.cases import Case
from xdprepro.lab import Host, Lab
from xdprepro.specs import make_dut_spec, make_tester_spec, plan_cpus

LAB = Lab(
    name="test",
    kind="veth",
    queues=2,
    mtu=1500,
    dut=Host("dut", "dut", "dut0", "02:00:00:00:00:01", netns="test-dut", address=None),
    tester=Host("tester", "tester", "tester0", "02:00:00:00:00:02", netns="test-tester", address=None),
    path=Path("inventory/test"),
)
COMMON = {"role", "case", "settle_s", "measure_s", "interval_s", "sampler_cpu"}
PORT = {"ifname", "attach_mode"}
FRAME = {"dst_mac": "02:00:00:00:00:02", "src_mac": "02:00:00:00:00:01", "frame_len": 60, "flows": 1}


def dut_of(case: Case) -> dict[str, object]:
    return make_dut_spec(LAB, case, plan_cpus(range(4), case), range(2))


@pytest.mark.parametrize(
    ("case", "sections"),
    [
        (Case("xdp.drop.no-touch"), set()),
        (Case("xdp.drop.read-data", access="load-bytes"), {"xdp"}),
        (Case("xdp.redirect-cpu.no-touch"), {"xdp"}),
        (Case("xsk.rxdrop"), {"xsk"}),
        (Case("xsk.rxdrop.csum"), {"xsk", "work"}),
        (Case("xdp.drop.mem"), {"work"}),
        (Case("pkt-v2.rxdrop"), {"packet"}),
        (Case("udp.rxdrop"), {"udp"}),
        (Case("tc.drop.no-touch"), set()),
        (Case("stack.local"), set()),
        (Case("xsk.txonly"), {"xsk", "frame", "count"}),
        (Case("xdp.drop.no-touch", pass_="pmu", pmu_group="llc"), {"pass", "pmu_group"}),
        (Case("xdp.drop.no-touch", pass_="diagnostic"), {"pass"}),
    ],
    ids=lambda value: value.id if isinstance(value, Case) else "",
)
def test_a_spec_has_the_sections_of_its_kind(case: Case, sections: set[str]) -> None:
    assert dut_of(case).keys() == COMMON | PORT | sections


def test_a_ring_has_no_port() -> None:
    spec = dut_of(Case("ring.head-tail"))
    assert spec.keys() == COMMON | {"ring"}
    assert spec["ring"] == {
        "size": 2048,
        "batch": 16,
        "fill": "half",
        "faster": "none",
        "producer_cpu": 3,
        "consumer_cpu": 2,
    }


def test_a_case_that_transmits_has_the_frame_and_the_tester_is_a_sink() -> None:
    case = Case("xsk.txonly")
    assert dut_of(case)["frame"] == FRAME
    tester = make_tester_spec(LAB, case, plan_cpus(range(4), case))
    assert (tester["role"], tester["case"], tester["ifname"]) == ("sink", "xdp.drop.no-touch", "tester0")
    assert "generator" not in tester


def test_frames_for_the_stack_have_an_address_of_nobody() -> None:
    case = Case("stack.local")
    tester = make_tester_spec(LAB, case, plan_cpus(range(4), case))
    assert tester["frame"]["dst_mac"] == "06:00:00:00:00:01"


@pytest.mark.parametrize(("name", "restored"), [("xdp.tx.lb", True), ("xdp.drop.csum", True), ("xdp.drop.fw", False)])
def test_headers_are_restored_where_a_work_writes_them(name: str, restored: bool) -> None:
    case = Case(name)
    frame = make_tester_spec(LAB, case, plan_cpus(range(4), case))["frame"]
    assert frame.get("restore", False) == restored


@pytest.mark.parametrize(
    ("case", "promiscuous"),
    [
        (Case("xdp.tx.no-touch"), True),
        (Case("xdp.redirect-cpu.no-touch", remote="redirect"), True),
        (Case("xdp.redirect-cpu.no-touch"), False),
        (Case("xdp.tx.swap-macs"), False),
        (Case("xdp.tx.lb"), False),
    ],
    ids=lambda value: value.id if isinstance(value, Case) else "",
)
def test_the_tester_takes_frames_for_others_only_where_they_come_back_as_they_were(
    case: Case, promiscuous: bool
) -> None:
    tester = make_tester_spec(LAB, case, plan_cpus(range(4), case))
    assert tester.get("promiscuous", False) == promiscuous


def test_busy_polling_has_its_settings_and_no_other_wakeup_has() -> None:
    keys = {"busy_poll_us", "busy_poll_budget"}
    for wakeup in ("irq", "need-wakeup", "poll", "busy-poll"):
        section = dut_of(Case("xsk.rxdrop", wakeup=wakeup))["xsk"]
        assert isinstance(section, dict)
        assert (keys <= section.keys()) == (wakeup == "busy-poll")


@pytest.mark.parametrize(
    ("case", "apps", "remotes", "generators"),
    [
        (Case("xdp.drop.no-touch"), (2,), (), (3,)),
        (Case("xsk.rxdrop", xsk_threads=2), (1, 2), (), (3,)),
        (Case("xsk.rxdrop", xsk_threads=4), (0, 1, 2, 3), (), (3,)),
        (Case("xsk.txonly"), (3,), (), ()),
        (Case("xdp.redirect-cpu.no-touch", remote_cpus=2), (2,), (1, 2), (3,)),
        (Case("ring.ptr-ring"), (2, 3), (), ()),
    ],
    ids=lambda value: value.id if isinstance(value, Case) else "",
)
def test_every_part_has_cpus_of_its_own_where_there_are_enough(
    case: Case, apps: tuple[int, ...], remotes: tuple[int, ...], generators: tuple[int, ...]
) -> None:
    cpus = plan_cpus(range(4), case)
    assert (cpus.sampler, cpus.apps, cpus.remotes, cpus.generators) == (0, apps, remotes, generators)

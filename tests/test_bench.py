# SPDX-License-Identifier: GPL-2.0-or-later
"""What a suite comes to on given ports: capabilities, generators, CPUs, specs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xdprepro.bench import check_port, resolve_generator
from xdprepro.cases import Case
from xdprepro.errors import UNAVAILABLE, XdpreproError
from xdprepro.lab import Host, Lab
from xdprepro.needs import find_missing
from xdprepro.specs import make_dut_spec, make_tester_spec, plan_cpus

DROP = Case("xdp.drop.no-touch", generator="live-frames")
XSK = Case("xsk.rxdrop", generator="live-frames")
LAB = Lab(
    name="test",
    kind="veth",
    queues=2,
    mtu=1500,
    dut=Host("dut", "dut", "dut0", "02:00:00:00:00:01", netns="test-dut", address=None),
    tester=Host("tester", "tester", "tester0", "02:00:00:00:00:02", netns="test-tester", address=None),
    path=Path("inventory/test"),
)


def probe(ifname: str, **missing: str) -> dict[str, Any]:
    """A port that can do everything but what is named, with the reason."""
    names = ("xdp_native", "xdp_skb", "xsk_copy", "xsk_zero_copy", "live_frames", "af_packet")
    can = {name: {"ok": False, "reason": missing[name]} if name in missing else {"ok": True} for name in names}
    return {"ifname": ifname, "mtu": 1500, "rx_queues": 2, "tx_queues": 2, "cpus": [0, 1], "can": can}


def test_everything_there_means_nothing_missing() -> None:
    assert find_missing(DROP, probe("dut0"), probe("tester0")) == ""
    assert find_missing(XSK, probe("dut0"), probe("tester0")) == ""


@pytest.mark.parametrize(
    ("case", "dut", "tester", "wanted"),
    [
        (
            DROP,
            {"xdp_native": "Operation not supported"},
            {},
            "DUT dut0 (MTU 1500) has no xdp native: Operation not supported",
        ),
        (
            DROP,
            {},
            {"live_frames": "Invalid argument"},
            "tester tester0 (MTU 1500) has no live frames: Invalid argument",
        ),
        (DROP, {}, {"xdp_native": "too few queues"}, "tester tester0 (MTU 1500) has no xdp native: too few queues"),
        (
            XSK,
            {"xsk_copy": "Address family not supported"},
            {},
            "DUT dut0 (MTU 1500) has no xsk copy: Address family not supported",
        ),
        (
            replace(XSK, bind_mode="zero-copy"),
            {"xsk_zero_copy": "bind"},
            {},
            "DUT dut0 (MTU 1500) has no xsk zero copy: bind",
        ),
        (replace(DROP, attach_mode="skb"), {"xdp_skb": "busy"}, {}, "DUT dut0 (MTU 1500) has no xdp skb: busy"),
        (
            replace(DROP, generator="af-packet"),
            {},
            {"af_packet": "EPERM"},
            "tester tester0 (MTU 1500) has no af packet: EPERM",
        ),
    ],
)
def test_missing_capability_is_named_with_the_probes_reason(
    case: Case, dut: dict[str, str], tester: dict[str, str], wanted: str
) -> None:
    assert find_missing(case, probe("dut0", **dut), probe("tester0", **tester)) == wanted


def test_unneeded_capability_is_not_asked_for() -> None:
    assert find_missing(DROP, probe("dut0", xsk_copy="x", xdp_skb="x"), probe("tester0", af_packet="x")) == ""


def test_frame_longer_than_the_mtu_names_both() -> None:
    long = replace(DROP, frame_len=1515)
    assert find_missing(replace(long, frame_len=1514), probe("dut0"), probe("tester0")) == ""
    assert find_missing(long, probe("dut0"), probe("tester0")) == "DUT dut0 has MTU 1500, frame_len 1515 needs 1501"


@pytest.mark.parametrize(
    ("attach_mode", "missing", "generator"),
    [("native", {}, "live-frames"), ("native", {"live_frames": "old kernel"}, "af-packet"), ("skb", {}, "af-packet")],
)
def test_auto_generator_follows_kernel_and_mode(attach_mode: str, missing: dict[str, str], generator: str) -> None:
    case = replace(DROP, generator="auto", attach_mode=attach_mode)
    assert resolve_generator(case, probe("tester0", **missing)).generator == generator


def test_generator_asked_for_is_kept() -> None:
    case = replace(DROP, generator="live-frames")
    assert resolve_generator(case, probe("tester0", live_frames="old kernel")) == case


def test_cpus_are_apart_where_there_are_enough() -> None:
    two = plan_cpus([0, 1], DROP)
    assert (two.sampler, two.apps, two.generators) == (0, (0,), (1,))
    four = plan_cpus([0, 1, 2, 3], replace(DROP, generators=2))
    assert (four.sampler, four.apps, four.generators) == (0, (1,), (2, 3))


def test_a_single_cpu_does_everything() -> None:
    one = plan_cpus([0], DROP)
    assert (one.sampler, one.apps, one.generators) == (0, (0,), (0,))


def test_more_generators_than_cpus_is_an_error_with_both_numbers() -> None:
    with pytest.raises(XdpreproError, match=r"generators = 3, this machine has 2 CPUs") as caught:
        plan_cpus([0, 1], replace(DROP, generators=3))
    assert caught.value.status == UNAVAILABLE


def test_specs_say_what_the_case_says() -> None:
    cpus = plan_cpus([0, 1], XSK)
    spec = make_dut_spec(LAB, replace(XSK, xsk_ring_rx=512, wakeup="poll"), cpus, [0, 1])
    assert spec["role"] == "sink"
    assert spec["xsk"] == {
        "bind_mode": "copy",
        "queues": [0, 1],
        "app_cpus": [0],
        "wakeup": "poll",
        "batch": 64,
        "ring_rx": 512,
        "ring_tx": 2048,
        "ring_fill": 1024,
        "ring_completion": 1024,
        "frames": 1024,
        "frame_size": 2048,
        "unaligned": False,
        "huge_pages": False,
        "shared_umem": False,
        "sockets": 1,
        "frags": False,
    }
    assert "xsk" not in make_dut_spec(LAB, DROP, cpus, [0, 1])
    tester = make_tester_spec(LAB, replace(DROP, frame_len=128, flows=7), cpus)
    assert tester["frame"] == {
        "dst_mac": "02:00:00:00:00:01",
        "src_mac": "02:00:00:00:00:02",
        "frame_len": 128,
        "flows": 7,
    }
    assert tester["cpus"] == [1]


def up_probe(ifname: str, **changes: Any) -> dict[str, Any]:
    return probe(ifname) | {"carrier": True, "xdp": {"attached": False, "prog_id": 0}} | changes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"carrier": False}, "carrier is False, the lab's is True"),
        ({"mtu": 1400}, "MTU is 1400, the lab's is 1500"),
        ({"rx_queues": 1}, "receive queues is 1, the lab's is 2"),
    ],
)
def test_port_that_is_not_as_the_lab_has_it_is_refused(changes: dict[str, Any], words: str) -> None:
    check_port(LAB, "DUT", up_probe("dut0"))
    with pytest.raises(XdpreproError, match=words) as caught:
        check_port(LAB, "DUT", up_probe("dut0", **changes))
    assert "dut0" in caught.value.message
    assert caught.value.hint == f"run 'xdprepro up {LAB.path}' to repair the lab"


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (replace(DROP, load="closed", generator="af-packet"), "load = closed waits for packets to return"),
        (Case("xdp.tx.swap-macs", load="closed", generator="af-packet", generators=2), "load = closed is for one"),
        (
            Case("xdp.tx.swap-macs", load="closed", generator="live-frames"),
            "load = closed needs the generator af-packet",
        ),
        (Case("xdp.drop.no-touch", generator="live-frames", frame_len=3401), "live frames have 3400 bytes at most"),
    ],
)
def test_load_that_the_generator_cannot_make_is_refused(case: Case, words: str) -> None:
    assert words in find_missing(case, probe("dut0"), probe("tester0"))


@pytest.mark.parametrize("changes", [{"load": "closed"}, {"frame_len": 3401}])
def test_auto_takes_af_packet_for_what_live_frames_cannot_do(changes: dict[str, Any]) -> None:
    case = Case("xdp.tx.swap-macs", **changes)
    assert resolve_generator(case, probe("tester0")).generator == "af-packet"
    assert resolve_generator(Case("xdp.tx.swap-macs"), probe("tester0")).generator == "live-frames"


def test_more_generators_than_queues_are_refused() -> None:
    case = replace(DROP, generators=3)
    assert "2 receive queues, generators = 3" in find_missing(case, probe("dut0"), probe("tester0"))

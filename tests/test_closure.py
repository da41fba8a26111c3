# SPDX-License-Identifier: GPL-2.0-or-later
"""Where packets went, to the packet, and what keeps a trial out of verdicts."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from made_trials import OUTSIDE, make_fingerprint, make_run, make_trial
from recorded import DATA, FLAGGED, load_recording, read_driver, read_params

from xdprepro import validity
from xdprepro.cases import Case, role_of
from xdprepro.closure import Closure, close_losses, close_trial
from xdprepro.kinds import CASE_KINDS
from xdprepro.places import PLACES
from xdprepro.sample import SIDES, Reading, Stream, Trial
from xdprepro.stats import returned_share

DROP = Case("xdp.drop.no-touch")
PASS = Case("xdp.pass.no-touch")
TX = Case("xdp.tx.swap-macs")
REDIRECT = Case("xdp.redirect.swap-macs")
XSK = Case("xsk.rxdrop")
TOTAL = 10_000_000 + OUTSIDE
DROPPED = "xdp_prog.cpu0.rxq0.XDP_DROP.packets"


def close(trial: Trial, case: Case, *, dut: str = "veth", tester: str = "veth") -> Closure:
    return close_losses(trial, case.params(), dut_driver=dut, tester_driver=tester)


def flags_of(trial: Trial, case: Case, **changes: Any) -> tuple[str, ...]:
    run = make_run([trial], [case], fingerprint=make_fingerprint(**changes))
    return validity.flag_names(validity.trial_flags(trial, run))


def without_source(stream: Stream, source: str) -> Stream:
    edges = {name: tuple(r for r in readings if r.source != source) for name, readings in stream.edges.items()}
    return replace(stream, edges=edges, absent={source: "no such file"})


def moved_by(stream: Stream, amounts: Mapping[str, int]) -> Stream:
    """The stream with so much more of some counters at its end."""
    readings = tuple(
        replace(reading, counters={k: v + amounts.get(f"{reading.source}.{k}", 0) for k, v in reading.counters.items()})
        for reading in stream.edges["end"]
    )
    return replace(stream, edges={**stream.edges, "end": readings})


# The balance


EVERY_CASE = [
    *map(Case, CASE_KINDS),
    *(Case("xdp.redirect-cpu.no-touch", remote=remote) for remote in ("drop", "pass", "redirect")),
]


@pytest.mark.parametrize("case", EVERY_CASE, ids=lambda case: case.id)
def test_every_case_closes_when_no_packet_is_lost(case: Case) -> None:
    found = close(make_trial(case), case)
    assert (found.accepted, found.accounted, found.open) == (TOTAL, TOTAL, False)


@pytest.mark.parametrize("case", [DROP, TX, REDIRECT, XSK], ids=lambda case: case.case)
@pytest.mark.parametrize("count", [-1, 1])
def test_a_single_packet_opens_it(case: Case, count: int) -> None:
    found = close(make_trial(case, tester_end={"generator.cpu1.packets": count}), case)
    assert found.open
    word = "missing" if count > 0 else "too many"
    assert found.reasons == (f"receive: {TOTAL + count} in, {TOTAL} counted, 1 {word}",)


def test_generators_of_all_cpus_are_summed() -> None:
    trial = make_trial(DROP, dut_end={DROPPED: 5}, tester_end={"generator.cpu12.packets": 5})
    assert close(trial, DROP).accepted == TOTAL + 5
    assert not close(trial, DROP).open


def test_what_the_tester_refused_was_never_accepted() -> None:
    trial = make_trial(DROP, tester_end={"generator.cpu1.packets": 40, "netdev.tx_dropped": 40})
    found = close(trial, DROP)
    assert (found.generated, found.refused, found.accepted, found.open) == (TOTAL + 40, 40, TOTAL, False)


@pytest.mark.parametrize("dropped", [0, 40])
def test_what_af_packet_sent_again_was_not_lost(dropped: int) -> None:
    # Whether a port counts its refusals or says that it is busy differs; the frame stays in the ring either way.
    case = replace(DROP, generator="af-packet")
    found = close(make_trial(case, tester_end={"generator.cpu1.errors": 40, "netdev.tx_dropped": dropped}), case)
    assert (found.accepted, found.refused, found.open) == (TOTAL, 0, False)


def test_drops_beyond_the_refusals_of_af_packet_are_lost_frames() -> None:
    case = replace(DROP, generator="af-packet")
    changes = {"generator.cpu1.errors": 40, "netdev.tx_dropped": 43, "generator.cpu1.packets": 3}
    found = close(make_trial(case, tester_end=changes), case)
    assert (found.accepted, found.refused, found.open) == (TOTAL, 3, False)


def test_errors_of_live_frames_are_no_refusals() -> None:
    changes = {"generator.cpu1.errors": 40, "netdev.tx_dropped": 40, "generator.cpu1.packets": 40}
    assert close(make_trial(DROP, tester_end=changes), DROP).refused == 40


def test_drops_before_the_program_are_found() -> None:
    trial = make_trial(DROP, tester_end={"generator.cpu1.packets": 9}, dut_end={"ethtool.rx_queue_1_drops": 9})
    found = close(trial, DROP)
    assert found.terms == (("before_program", 9), ("XDP_DROP", TOTAL))
    assert not found.open


def test_drops_of_the_program_are_not_counted_twice() -> None:
    assert not close(make_trial(DROP, dut_end={"ethtool.rx_queue_0_xdp_drops": TOTAL}), DROP).open


def test_unexplained_drops_of_the_driver_open_a_forward_case() -> None:
    found = close(make_trial(TX, dut_end={"ethtool.rx_queue_0_drops": 3}), TX)
    assert found.reasons == (f"XDP_TX: {TOTAL} in, {TOTAL + 3} counted, 3 too many",)


def test_other_actions_are_places_too() -> None:
    trial = make_trial(
        DROP, tester_end={"generator.cpu1.packets": 6}, dut_end={"xdp_prog.cpu0.rxq0.XDP_ABORTED.packets": 6}
    )
    assert close(trial, DROP).terms == (("XDP_ABORTED", 6), ("XDP_DROP", TOTAL))


def test_forwarded_packets_that_did_not_leave_are_found() -> None:
    found = close(make_trial(TX, returned_share=0.5), TX)
    assert found.terms == (("returned", TOTAL // 2), ("not_sent", TOTAL - TOTAL // 2))
    assert not found.open


@pytest.mark.parametrize("case", [TX, REDIRECT], ids=lambda case: case.case)
def test_a_packet_lost_on_the_way_back_opens_a_forward_case(case: Case) -> None:
    found = close(make_trial(case, tester_end={"xdp_prog.cpu0.rxq0.XDP_DROP.packets": -1}), case)
    assert found.reasons == (f"{case.kind.action}: {TOTAL} in, {TOTAL - 1} counted, 1 missing",)


def test_two_errors_that_cancel_out_still_open_it() -> None:
    trial = make_trial(TX, tester_end={"generator.cpu1.packets": 1, "xdp_prog.cpu0.rxq0.XDP_DROP.packets": 1})
    found = close(trial, TX)
    assert found.accepted == found.accounted
    assert len(found.reasons) == 2


def test_redirects_that_failed_are_found() -> None:
    trial = make_trial(
        REDIRECT, dut_end={"ethtool.rx_queue_0_drops": 7}, tester_end={"xdp_prog.cpu0.rxq0.XDP_DROP.packets": -7}
    )
    found = close(trial, REDIRECT)
    assert found.terms == (("returned", TOTAL - 7), ("redirect_error", 7))
    assert not found.open


def test_one_drop_counter_serves_both_sides_of_the_program() -> None:
    trial = make_trial(
        REDIRECT,
        dut_end={"ethtool.rx_queue_0_drops": 10},
        tester_end={"generator.cpu1.packets": 4, "xdp_prog.cpu0.rxq0.XDP_DROP.packets": -6},
    )
    found = close(trial, REDIRECT)
    assert found.terms == (("before_program", 4), ("returned", TOTAL - 6), ("redirect_error", 6))
    assert not found.open


def test_what_the_socket_refused_is_found_once() -> None:
    refused = {"xsk.q0.rx_dropped": 5, "xsk.q1.rx_ring_full": 8}
    trial = make_trial(XSK, dut_end={**refused, "ethtool.rx_queue_0_drops": 13, "xsk_app.q0.rx_packets": -13})
    found = close(trial, XSK)
    assert found.terms == (("xsk_app.rx_packets", TOTAL - 13), ("xsk_ring_full", 8), ("xsk_dropped", 5))
    assert not found.open


def test_a_failed_redirect_that_no_socket_counted_is_found() -> None:
    trial = make_trial(
        XSK, dut_end={"xsk.q0.rx_dropped": 5, "ethtool.rx_queue_0_drops": 7, "xsk_app.q0.rx_packets": -7}
    )
    found = close(trial, XSK)
    assert found.terms[-1] == ("redirect_error", 2)
    assert not found.open


def test_frames_left_in_the_socket_open_it() -> None:
    found = close(make_trial(XSK, dut_end={"xsk_app.q0.rx_packets": -64}), XSK)
    assert found.reasons == (f"XDP_REDIRECT: {TOTAL} in, {TOTAL - 64} counted, 64 missing",)


# Drivers that count otherwise


def with_counters(case: Case, *, dut: Mapping[str, int], tester: Mapping[str, int] | None = None) -> Trial:
    """A trial of these counters at the end of its edges, without those of veth."""
    trial = make_trial(case, dut_end=dut, tester_end=tester)
    return replace(trial, dut=without_counter(trial.dut, r"ethtool\.rx_queue_0.*"))


def without_counter(stream: Stream, pattern: str) -> Stream:
    edges = {
        name: tuple(
            replace(r, counters={k: v for k, v in r.counters.items() if not re.fullmatch(pattern, f"{r.source}.{k}")})
            for r in readings
        )
        for name, readings in stream.edges.items()
    }
    return replace(stream, edges=edges)


@pytest.mark.parametrize("driver", ["igb", "vmxnet3"])
def test_what_a_driver_refused_without_counting_it_was_not_sent(driver: str) -> None:
    trial = make_trial(DROP, tester_end={"generator.cpu1.packets": 12, "netdev.tx_packets": TOTAL})
    found = close(trial, DROP, dut=driver, tester=driver)
    assert (found.refused, found.accepted, found.open) == (12, TOTAL, False)


@pytest.mark.parametrize("driver", ["igb", "vmxnet3"])
def test_a_frame_that_was_sent_and_never_came_opens_it(driver: str) -> None:
    trial = make_trial(DROP, tester_end={"generator.cpu1.packets": 12, "netdev.tx_packets": TOTAL + 1})
    assert close(trial, DROP, dut=driver, tester=driver).reasons == (
        f"receive: {TOTAL + 1} in, {TOTAL} counted, 1 missing",
    )


@pytest.mark.parametrize("case", [TX, REDIRECT], ids=lambda case: case.case)
def test_igb_did_not_send_what_it_forwarded_without_sending(case: Case) -> None:
    sent = {"netdev.tx_packets": TOTAL - 5}
    trial = make_trial(
        case, dut_end=sent, tester_end={"netdev.tx_packets": TOTAL, "xdp_prog.cpu0.rxq0.XDP_DROP.packets": -5}
    )
    found = close(trial, case, dut="igb", tester="igb")
    assert found.terms == (("returned", TOTAL - 5), ("not_sent", 5))
    assert not found.open


def test_what_the_stack_had_no_room_for_is_neither_there_nor_in_the_rate() -> None:
    case = Case("xsk.local.swap-macs")
    trial = make_trial(
        case, dut_end={"local_netdev.rx_packets": -TOTAL // 4, "local_netdev.rx_dropped": TOTAL // 4 + 1}
    )
    found = close(trial, case)
    assert dict(found.terms) == {"to_stack": TOTAL - TOTAL // 4 - 1, "not_sent": TOTAL // 4 + 1}
    assert not found.open
    assert returned_share(trial, case.params()) == pytest.approx(0.75, abs=1e-6)


def test_what_was_handed_to_the_stack_and_never_came_opens_it() -> None:
    case = Case("xsk.local.swap-macs")
    found = close(make_trial(case, dut_end={"local_netdev.rx_packets": -3}), case)
    assert found.reasons == (f"xsk_app.tx_packets: {TOTAL} in, {TOTAL - 3} counted, 3 missing",)


@pytest.mark.parametrize(
    ("counter", "place"), [("netdev.rx_missed_errors", "rx_phy_discard"), ("netdev.rx_fifo_errors", "no_buffer")]
)
def test_igb_drops_before_the_program_where_it_has_no_room(counter: str, place: str) -> None:
    trial = make_trial(
        DROP, dut_end={counter: 4}, tester_end={"generator.cpu1.packets": 4, "netdev.tx_packets": TOTAL + 4}
    )
    found = close(trial, DROP, dut="igb", tester="igb")
    assert found.terms == ((place, 4), ("XDP_DROP", TOTAL))
    assert not found.open


@pytest.mark.parametrize("name", ["ethtool.  pkts rx OOB", "ethtool.  drv dropped rx total", "ethtool.  pkts rx err#2"])
def test_vmxnet3_spells_its_drops_with_spaces(name: str) -> None:
    trial = make_trial(
        DROP, dut_end={name: 4}, tester_end={"generator.cpu1.packets": 4, "netdev.tx_packets": TOTAL + 4}
    )
    assert not close(trial, DROP, dut="vmxnet3", tester="vmxnet3").open


@pytest.mark.parametrize("queue", ["rx0", "rx_queue_0"])
def test_virtio_counts_the_drops_of_the_program_once_more(queue: str) -> None:
    drops = {f"ethtool.{queue}_drops": TOTAL, f"ethtool.{queue}_xdp_drops": TOTAL}
    found = close(with_counters(DROP, dut=drops), DROP, dut="virtio_net", tester="virtio_net")
    assert found.terms == (("XDP_DROP", TOTAL),)
    assert not found.open


def test_virtio_drops_before_the_program_are_what_is_left() -> None:
    trial = with_counters(DROP, dut={"ethtool.rx0_drops": TOTAL + 3}, tester={"generator.cpu1.packets": 3})
    found = close(trial, DROP, dut="virtio_net", tester="virtio_net")
    assert found.terms == (("before_program", 3), ("XDP_DROP", TOTAL))
    assert not found.open


@pytest.mark.parametrize("queue", ["tx0", "tx_queue_0"])
def test_virtio_refuses_where_its_ring_is_full(queue: str) -> None:
    refused = {"generator.cpu1.packets": 6, f"ethtool.{queue}_xdp_tx_drops": 6}
    trial = with_counters(DROP, dut={"ethtool.rx0_drops": TOTAL}, tester=refused)
    found = close(trial, DROP, dut="virtio_net", tester="virtio_net")
    assert (found.refused, found.open) == (6, False)


def test_virtio_redirects_that_failed_are_among_its_drops() -> None:
    trial = with_counters(REDIRECT, dut={"ethtool.rx0_drops": 7}, tester={"xdp_prog.cpu0.rxq0.XDP_DROP.packets": -7})
    found = close(trial, REDIRECT, dut="virtio_net", tester="virtio_net")
    assert found.terms == (("returned", TOTAL - 7), ("redirect_error", 7))
    assert not found.open


@pytest.mark.parametrize(("side", "source"), [("dut", "ethtool"), ("dut", "xdp_prog"), ("tester", "netdev")])
def test_a_source_that_is_absent_is_no_zero(side: str, source: str) -> None:
    trial = make_trial(DROP)
    if side == "dut":
        trial = replace(trial, dut=without_source(trial.dut, source))
    else:
        trial = replace(trial, tester=without_source(trial.tester, source))
    found = close(trial, DROP)
    assert f"{side}: {source} absent: no such file" in found.reasons


def test_without_an_end_edge_it_is_open() -> None:
    trial = make_trial(DROP)
    dut = replace(trial.dut, edges={"start": trial.dut.edges["start"]})
    assert "dut: no end edge" in close(replace(trial, dut=dut), DROP).reasons


def test_events_that_a_driver_counts_are_told_and_no_part_of_the_balance() -> None:
    events, quiet = {"ethtool.rx_queue_1_alloc_failed": 3}, {"ethtool.rx_no_buffer_count": 0}
    trial = with_counters(DROP, dut=events, tester={"netdev.tx_packets": TOTAL, **quiet})
    found = close(trial, DROP, dut="igb", tester="igb")
    assert (found.hints, found.reasons) == ((("DUT no_buffer", 3),), ())


def test_an_unknown_driver_falls_back_to_link_statistics_and_says_so() -> None:
    trial = make_trial(
        DROP,
        tester_end={"generator.cpu1.packets": 12, "netdev.tx_errors": 2},
        dut_end={"netdev.rx_missed_errors": 7, "netdev.rx_errors": 3},
    )
    found = close(trial, DROP, dut="tg3", tester="tg3")
    assert found.generic
    assert found.terms == (("before_program", 10), ("XDP_DROP", TOTAL))
    assert not found.open


def test_one_unknown_driver_is_enough_to_say_so() -> None:
    assert close(make_trial(DROP), DROP, tester="tg3").generic
    assert not close(make_trial(DROP), DROP).generic


def test_drivers_come_from_the_fingerprint() -> None:
    trial = make_trial(DROP)
    run = make_run([trial], [DROP], fingerprint=make_fingerprint(dut__port__driver="tg3"))
    assert close_trial(trial, run).generic


# Recordings: where real packets ended, by what was done to them

RECORDINGS = {
    "drop_live_frames": {"XDP_DROP"},
    "pass_skb": {"XDP_PASS"},
    "af_packet_retries": {"XDP_DROP"},
    "tx_refused": {"returned"},
    "tx_not_sent": {"not_sent"},
    "redirect_failed": {"redirect_error"},
    "xsk_ring_full": {"xsk_app.rx_packets", "xsk_ring_full"},
    "xsk_fill_empty": {"xsk_app.rx_packets", "xsk_fill_empty"},
    "igb_drop": {"XDP_DROP"},
    "igb_tx": {"returned"},
    "virtio_drop": {"XDP_DROP"},
    "virtio_redirect": {"returned"},
    "vmxnet3_tx": {"returned"},
    "e1000e_tx_skb": {"returned"},
    "l2fwd_ring_full": {"xsk_ring_full", "xsk_fill_empty", "returned"},
    "txonly": {"returned"},
    "lbfw": {"XDP_DROP", "xsk_ring_full", "returned"},
    "multi": {"returned"},
    "cpumap_full": {"remote XDP_DROP", "cpumap_full"},
    "cpumap_redirect": {"cpumap_full", "returned"},
    "pkt_v2_l2fwd": {"socket_full", "returned"},
    "pkt_v3_txonly": {"returned"},
    "udp_full": {"udp_app.rx_packets", "socket_full"},
    "tc_redirect": {"returned"},
    "stack_local": {"to_stack"},
}
BALANCED = (
    r"generator\.cpu\d+\.packets|(xdp|tc)_prog\..*\.packets|(xsk|pkt|udp)_app\.(q\d\.)?(rx_packets|tx_packets|dropped)"
    r"|xsk\.q\d\.rx_(dropped|ring_full)|pkt\.tp_drops|udp\.drops"
)


def test_every_recording_is_tested() -> None:
    assert {path.stem for path in DATA.glob("*.jsonl")} == RECORDINGS.keys() | FLAGGED.keys()


def close_recording(name: str, trial: Trial) -> Closure:
    driver = read_driver(name)
    return close_losses(trial, read_params(name), dut_driver=driver, tester_driver=driver)


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_closes_to_the_packet(name: str) -> None:
    trial, _ = load_recording(name)
    found = close_recording(name, trial)
    assert found.reasons == ()
    assert not found.generic
    assert {place for place, _ in found.terms} == RECORDINGS[name]
    # The port counts by itself what came in.
    receiver = trial.tester if role_of(read_params(name)) == "transmit" else trial.dut
    assert found.accepted == found.accounted == receiver.delta()["netdev.rx_packets"] > 0


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_has_no_excluding_flag(name: str) -> None:
    trial, _ = load_recording(name)
    none_back = RECORDINGS[name] in ({"not_sent"}, {"redirect_error"})
    found = validity.find_flags(trial, read_params(name), close_recording(name, trial))
    # They are 60 ms long, on a machine that did other things: these flags are right, and not what is tested here. The
    # counts of a window are no part of a recording.
    flags = set(validity.flag_names(found))
    flags -= {"stalled", "cpu_shared", "overrun", "load_gap", "slow_reading", "no_count"}
    assert flags == ({"no_packets"} if none_back else set())


@pytest.mark.parametrize("name", RECORDINGS)
def test_one_packet_more_in_any_counter_opens_a_recording(name: str) -> None:
    trial, _ = load_recording(name)
    balanced = BALANCED
    if PLACES[read_driver(name)].sent:
        # What such a driver did not send was refused, whatever the generator says.
        balanced = balanced.replace(r"generator\.cpu\d+\.packets", r"netdev\.tx_packets")
    if role_of(read_params(name)) == "transmit":
        balanced = r"xdp_prog\..*\.packets|\w+_app\.(q\d\.)?tx_packets"  # nobody sends to it
    deltas = [(side, one, count) for side in SIDES for one, count in getattr(trial, side).delta().items()]
    names = [
        (side, one) for side, one, count in deltas if re.fullmatch(balanced, one) and (count or "netdev" not in one)
    ]
    assert names
    for side, one in names:
        if side == "dut":
            changed = replace(trial, dut=add_one(trial.dut, one))
        else:
            changed = replace(trial, tester=add_one(trial.tester, one))
        assert close_recording(name, changed).open, (side, one)


def add_one(stream: Stream, name: str) -> Stream:
    source, _, counter = name.partition(".")
    end = tuple(
        replace(one, counters={**one.counters, counter: one.counters[counter] + 1}) if one.source == source else one
        for one in stream.edges["end"]
    )
    return replace(stream, edges={**stream.edges, "end": end})


def test_frames_that_af_packet_sent_again_are_in_the_recording() -> None:
    trial, case = load_recording("af_packet_retries")
    assert trial.tester.delta()["netdev.tx_dropped"] > 0
    assert close(trial, case).refused == 0


def test_frames_that_the_port_refused_are_in_the_recording() -> None:
    trial, case = load_recording("tx_refused")
    assert close(trial, case).refused == trial.tester.delta()["ethtool.tx_queue_0_xdp_xmit_errors"] > 0


@pytest.mark.parametrize(
    ("name", "program"), [("igb_drop", "XDP_DROP"), ("igb_tx", "XDP_TX"), ("vmxnet3_tx", "XDP_TX")]
)
def test_frames_of_others_do_not_close_a_balance_by_counting_as_sent(name: str, program: str) -> None:
    trial, case = load_recording(name)
    driver = read_driver(name)
    seen = next(key for key in trial.dut.edge("end") if key.endswith(f".{program}.packets"))
    trial = replace(
        trial,
        dut=moved_by(trial.dut, {seen: 500, "netdev.rx_packets": 500}),
        tester=moved_by(trial.tester, {"netdev.tx_packets": 500}),
    )
    found = close_losses(trial, case.params() | read_params(name), dut_driver=driver, tester_driver=driver)
    assert found.open
    assert "the sender's port sent 500 frames more than it was handed" in found.reasons[-1] + found.reasons[0]


@pytest.mark.parametrize(("processed", "expected"), [(TOTAL, False), (TOTAL // 2, True), (None, False)])
def test_cpumap_without_a_program_is_overrun_if_its_cpu_took_less(processed: int | None, expected: bool) -> None:
    case = Case("xdp.redirect-cpu.no-touch")
    trial = make_trial(case)
    if processed is not None:
        softnet = [
            Reading("softnet", 0, 1, {f"cpu{cpu}.processed": value for cpu in range(4)}) for value in (0, processed)
        ]
        edges = {
            name: (*(r for r in trial.dut.edges[name] if r.source != "softnet"), reading)
            for name, reading in zip(("start", "end"), softnet, strict=True)
        }
        trial = replace(trial, dut=replace(trial.dut, edges=edges))
    run = make_run([trial], [case], fingerprint=make_fingerprint())
    cpus = {"sampler": 0, "apps": [], "remotes": [0], "generators": [1]}
    run = replace(run, cases={case.id: {**run.cases[case.id], "cpus": cpus}})
    assert ("overrun" in validity.flag_names(validity.trial_flags(trial, run))) is expected

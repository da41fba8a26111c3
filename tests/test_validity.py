# SPDX-License-Identifier: GPL-2.0-or-later
"""Flags: each is raised by what it is for, and by nothing else."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from made_trials import OUTSIDE, make_fingerprint, make_run, make_trial
from recorded import FLAGGED, load_recording, read_params

from xdprepro import validity
from xdprepro.cases import Case
from xdprepro.closure import Closure, close_losses, close_trial
from xdprepro.sample import Sample, Stream, Trial
from xdprepro.stats import trial_rate

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


# The CPU that received


def with_ticks(case: Case, **ticks: int) -> Trial:
    busy = {"softirq": 60, "system": 40} | ticks
    return make_trial(case, dut_end={f"proc_stat.cpu0.{kind}": count for kind, count in busy.items()})


@pytest.mark.parametrize("kind", ["user", "nice", "steal"])
def test_a_cpu_in_other_hands_is_flagged(kind: str) -> None:
    assert flags_of(with_ticks(DROP, **{kind: 3}), DROP) == ("cpu_shared",)
    assert flags_of(with_ticks(DROP, **{kind: 1}), DROP) == ()


def test_time_of_another_cpu_is_not_the_packets() -> None:
    trial = make_trial(DROP, dut_end={"proc_stat.cpu1.user": 100, "proc_stat.cpu0.softirq": 100})
    assert flags_of(trial, DROP) == ()


def test_a_generator_of_af_packet_is_in_user_space_by_right() -> None:
    case = replace(DROP, generator="af-packet")
    run = make_run([with_ticks(case, user=50)], [case])
    params: dict[str, Any] = {**run.cases[case.id], "cpus": {"sampler": 1, "apps": [1], "generators": [0]}}
    found = validity.find_flags(run.trials[0], params, close_trial(run.trials[0], run))
    assert validity.flag_names(found) == ()
    stolen = with_ticks(case, user=50, steal=10)
    assert validity.flag_names(validity.find_flags(stolen, params, close_trial(stolen, run))) == ("cpu_shared",)


def test_a_socket_that_is_too_slow_is_flagged() -> None:
    most = make_trial(XSK, dut_end={"xsk.q0.rx_ring_full": 10**6, "xsk_app.q0.rx_packets": -(10**6)})
    assert flags_of(most, XSK) == ("overrun",)
    few = make_trial(XSK, dut_end={"xsk.q0.rx_ring_full": 10**4, "xsk_app.q0.rx_packets": -(10**4)})
    assert flags_of(few, XSK) == ()


# The samples


def with_samples(trial: Trial, change: Callable[[int, Sample], Sample]) -> Trial:
    samples = tuple(change(index, sample) for index, sample in enumerate(trial.dut.samples))
    return replace(trial, dut=replace(trial.dut, samples=samples))


def test_a_reading_that_was_interrupted_does_not_end_the_window() -> None:
    late = with_samples(make_trial(DROP), lambda k, s: replace(s, t0_ns=s.t0_ns - 5_000_000) if k == 0 else s)
    rate = trial_rate(late, DROP.params())
    assert rate is not None
    assert rate.window_ns == 19 * 50_000_000
    assert rate.ns_per_packet == pytest.approx(100.0)
    assert flags_of(late, DROP) == ()


def test_readings_that_were_all_interrupted_are_flagged() -> None:
    late = with_samples(make_trial(DROP), lambda _k, s: replace(s, t0_ns=s.t0_ns - 5_000_000))
    assert flags_of(late, DROP) == ("slow_reading",)


@pytest.mark.parametrize(("still", "flags"), [(2, ("stalled",)), (3, ("stalled", "load_gap"))])
def test_a_gap_in_the_load_is_flagged_and_a_long_one_is_no_figure(still: int, flags: tuple[str, ...]) -> None:
    first = make_trial(DROP).dut.samples[5].counters
    gap = with_samples(make_trial(DROP), lambda k, s: replace(s, counters=first) if 5 < k <= 5 + still else s)
    assert flags_of(gap, DROP) == flags


def test_two_samples_close_together_are_no_stall() -> None:
    def hurry(index: int, sample: Sample) -> Sample:
        before = make_trial(DROP).dut.samples[4]
        again = replace(before, t0_ns=before.t1_ns + 100, t1_ns=before.t1_ns + 800)
        return again if index == 5 else sample

    assert flags_of(with_samples(make_trial(DROP), hurry), DROP) == ()


# The mode


def test_silence_about_the_mode_is_no_proof_of_it() -> None:
    trial = make_trial(DROP)
    silent = replace(trial, dut=replace(trial.dut, ready={"ready": True}))
    assert "mode_mismatch" in flags_of(silent, DROP)
    without = make_trial(XSK)
    without = replace(without, dut=replace(without.dut, ready={**without.dut.ready, "xsk": []}))
    assert "mode_mismatch" in flags_of(without, XSK)


# Flags


@pytest.mark.parametrize("name", FLAGGED)
def test_what_is_wrong_with_a_recording_is_flagged(name: str) -> None:
    trial, _ = load_recording(name)
    params = read_params(name)
    closure = close_losses(trial, params, dut_driver="veth", tester_driver="veth")
    found = set(validity.flag_names(validity.find_flags(trial, params, closure)))
    assert found - {"stalled", "load_gap", "cpu_shared"} == FLAGGED[name]


def test_a_good_trial_has_no_flags() -> None:
    for case in (DROP, PASS, TX, REDIRECT, XSK):
        assert flags_of(make_trial(case), case) == ()


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_a_trial_that_did_not_end_well_is_flagged(status: str) -> None:
    assert flags_of(make_trial(DROP, status=status), DROP) == ("failed",)


def test_an_open_balance_is_flagged() -> None:
    assert flags_of(make_trial(DROP, tester_end={"generator.cpu1.packets": 1}), DROP) == ("loss_open",)


def test_an_unknown_driver_is_flagged_but_not_excluded() -> None:
    trial = make_trial(DROP)
    run = make_run([trial], [DROP], fingerprint=make_fingerprint(dut__port__driver="tg3"))
    mask = validity.trial_flags(trial, run)
    assert validity.flag_names(mask) == ("closure_generic",)
    assert validity.excluding(mask) == ()


def replace_sample(trial: Trial, index: int, counters: Mapping[str, int]) -> Trial:
    samples = list(trial.dut.samples)
    samples[index] = replace(samples[index], counters=counters)
    return replace(trial, dut=replace(trial.dut, samples=tuple(samples)))


def test_a_counter_that_went_back_is_flagged() -> None:
    trial = make_trial(DROP)
    assert flags_of(replace_sample(trial, 5, {DROPPED: 1}), DROP) == ("counter_decreased",)


def test_a_counter_that_vanished_is_flagged() -> None:
    assert flags_of(replace_sample(make_trial(DROP), 5, {}), DROP) == ("counter_decreased",)


def test_a_gauge_may_go_down() -> None:
    trial = make_trial(DROP, dut_end={"softnet.cpu0.input_qlen": -5, "ethtool.some_level": -1})
    assert flags_of(trial, DROP) == ()


def test_an_edge_counter_that_went_back_is_flagged() -> None:
    assert "counter_decreased" in flags_of(make_trial(DROP, dut_end={"netdev.rx_packets": -1}), DROP)


def with_ready(trial: Trial, **ready: Any) -> Trial:
    return replace(trial, dut=replace(trial.dut, ready={**trial.dut.ready, **ready}))


def test_another_attach_mode_is_flagged() -> None:
    trial = with_ready(make_trial(DROP), attach={"attach_mode": "skb", "prog_id": 7})
    assert flags_of(trial, DROP) == ("mode_mismatch",)
    assert validity.mode_mismatches(trial, DROP.params()) == ("attach_mode: asked native, got skb",)


def test_another_bind_mode_of_one_socket_is_flagged() -> None:
    case = replace(XSK, bind_mode="zero-copy")
    sockets = [{"queue_id": 0, "bind_mode": "zero-copy"}, {"queue_id": 1, "bind_mode": "copy"}]
    trial = with_ready(make_trial(case), xsk=sockets)
    assert flags_of(trial, case) == ("mode_mismatch",)
    assert validity.mode_mismatches(trial, case.params()) == ("queue 1 bind_mode: asked zero-copy, got copy",)


def test_another_program_at_the_end_is_flagged() -> None:
    trial = make_trial(DROP)
    done = {"done": True, "attach": {"attach_mode": "native", "prog_id": 8}}
    assert flags_of(replace(trial, dut=replace(trial.dut, done=done)), DROP) == ("mode_mismatch",)


def test_another_generator_is_flagged() -> None:
    case = replace(DROP, generator="af-packet")
    trial = make_trial(case)
    tester = replace(trial.tester, ready={"generator": {"generator": "live-frames"}})
    assert flags_of(replace(trial, tester=tester), case) == ("mode_mismatch",)


def test_any_generator_will_do_when_none_is_asked_for() -> None:
    trial = make_trial(DROP)
    for generator in ("live-frames", "af-packet"):
        tester = replace(trial.tester, ready={"generator": {"generator": generator}})
        assert flags_of(replace(trial, tester=tester), DROP) == ()


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_samples_are_flagged(count: int) -> None:
    trial = make_trial(DROP)
    short = replace(trial, dut=replace(trial.dut, samples=trial.dut.samples[:count]))
    assert flags_of(short, DROP) == ("no_samples",)


def test_samples_at_one_moment_are_too_few() -> None:
    trial = make_trial(DROP)
    still = tuple(replace(sample, t1_ns=5) for sample in trial.dut.samples)
    assert flags_of(replace(trial, dut=replace(trial.dut, samples=still)), DROP) == ("no_samples",)


def test_a_measure_phase_without_packets_is_flagged() -> None:
    trial = make_trial(DROP)
    still = tuple(replace(sample, counters={DROPPED: 5}) for sample in trial.dut.samples)
    assert flags_of(replace(trial, dut=replace(trial.dut, samples=still)), DROP) == (
        "no_packets",
        "stalled",
        "load_gap",
    )


def test_an_interval_without_packets_is_shown_and_not_excluded() -> None:
    trial = make_trial(DROP)
    trial = replace_sample(trial, 5, trial.dut.samples[4].counters)
    mask = validity.trial_flags(trial, make_run([trial], [DROP]))
    assert validity.flag_names(mask) == ("stalled",)
    assert validity.excluding(mask) == ()


@pytest.mark.parametrize(("share", "flags"), [(0.02, ("wrong_queue",)), (0.005, ())])
def test_packets_on_a_queue_without_a_socket_are_flagged(share: float, flags: tuple[str, ...]) -> None:
    strays = round(TOTAL * share)
    moved = {"xdp_prog.cpu0.rxq0.XDP_REDIRECT.packets": -strays, "xdp_prog.cpu0.rxq1.XDP_REDIRECT.packets": strays}
    assert flags_of(make_trial(XSK, dut_end=moved), XSK) == flags


@pytest.mark.parametrize(("share", "flags"), [(0.02, ("other_action",)), (0.005, ())])
def test_packets_that_met_another_action_are_flagged(share: float, flags: tuple[str, ...]) -> None:
    strays = round(TOTAL * share)
    extra = {"xdp_prog.cpu0.rxq0.XDP_PASS.packets": strays}
    trial = make_trial(DROP, dut_end=extra, tester_end={"generator.cpu1.packets": strays})
    assert flags_of(trial, DROP) == flags


def test_an_agent_that_said_nothing_is_excluded() -> None:
    trial = replace(make_trial(DROP, status="failed"), dut=Stream(error="dut0: attach: No such device"))
    assert flags_of(trial, DROP) == ("failed", "loss_open", "no_samples")


def test_bits_of_sealed_archives_keep_their_meaning() -> None:
    assert validity.FLAGS == (
        "failed",
        "loss_open",
        "counter_decreased",
        "mode_mismatch",
        "no_samples",
        "no_packets",
        "wrong_queue",
        "other_action",
        "stalled",
        "closure_generic",
        "cpu_shared",
        "overrun",
        "load_gap",
        "slow_reading",
        "no_count",
        "boots_differ",
        "not_returned",
        "short_warmup",
        "closure_unchecked",
        "pause_frames",
        "settings_left",
        "foreign_irq",
        "freq_unstable",
        "pmu_multiplexed",
        "generator_bound",
        "line_bound",
        "pacing_off",
        "search_quantised",
        "loop_stalled",
        "lost_in_burst",
    )


def test_a_mask_holds_each_flag_in_its_bit() -> None:
    assert [validity.flag_names(1 << bit) for bit in range(len(validity.FLAGS))] == [(name,) for name in validity.FLAGS]
    assert validity.flag_names(0) == ()


def test_a_settle_sample_does_not_end_a_stall() -> None:
    trial = make_trial(DROP)
    settle = Sample("settle", 1, 2, {DROPPED: 0})
    samples = (settle, *trial.dut.samples)
    assert flags_of(replace(trial, dut=replace(trial.dut, samples=samples)), DROP) == ()


def with_rates(rates: Sequence[int]) -> Trial:
    """A trial of DROP with so many packets in each interval of the measure phase."""
    counts = list(itertools.accumulate(rates, initial=0))

    def change(index: int, sample: Sample) -> Sample:
        return replace(sample, counters={DROPPED: counts[index]})

    return with_samples(make_trial(DROP), change)


@pytest.mark.parametrize(
    ("rates", "flags"),
    [
        ([500, 800, 900, *[1000] * 17], ("short_warmup",)),
        ([*[500] * 5, *[1000] * 15], ("short_warmup",)),
        ([500, 800, *[1000] * 18], ()),
        ([960, 960, 960, *[1000] * 17], ()),
        ([900, 900, 900, *[1000] * 8, 890, *[1000] * 8], ()),
    ],
    ids=["rising", "late", "two slow intervals", "as good as even", "a slow one later"],
)
def test_a_rate_that_rises_when_it_is_measured_is_flagged(rates: list[int], flags: tuple[str, ...]) -> None:
    assert flags_of(with_rates(rates), DROP) == flags


@pytest.mark.parametrize("case", [TX, Case("xsk.l2fwd.swap-macs"), Case("pkt-v2.l2fwd"), Case("xsk.txonly")])
@pytest.mark.parametrize(("share", "flags"), [(0.01, ("loss_open", "not_returned")), (0.0001, ("loss_open",))])
def test_packets_that_left_and_never_came_are_flagged(case: Case, share: float, flags: tuple[str, ...]) -> None:
    trial = make_trial(case, tester_end={"xdp_prog.cpu0.rxq0.XDP_DROP.packets": -round(TOTAL * share)})
    assert flags_of(trial, case) == flags


def test_an_unchecked_table_is_flagged_but_not_excluded() -> None:
    sent = {"ethtool.port.tx_unicast": TOTAL}
    trial = make_trial(DROP, tester_end=sent)
    flags = flags_of(trial, DROP, dut__port__driver="i40e", tester__port__driver="i40e")
    assert flags == ("closure_unchecked",)


@pytest.mark.parametrize("name", ["xsk.l2fwd.swap-macs", "xdpxsk.drop.no-touch", "xdpxsk.tx.swap-macs"])
def test_packets_beside_the_socket_are_flagged_in_every_case_that_has_one(name: str) -> None:
    case = Case(name)
    trial = make_trial(case, cores=2)
    assert "wrong_queue" in flags_of(trial, case)


@pytest.mark.parametrize(("driver", "open_"), [("veth", True), ("ena", False)])
def test_a_counter_of_the_drivers_places_that_went_backwards_is_flagged(driver: str, open_: bool) -> None:
    trial = make_trial(DROP)
    back = {"rx_queue_0_drops": 5}
    edges = {
        name: tuple(
            replace(one, counters=one.counters if name == "start" else {**one.counters, **back})
            if one.source == "ethtool"
            else one
            for one in readings
        )
        for name, readings in trial.dut.edges.items()
    }
    trial = replace(trial, dut=replace(trial.dut, edges=edges))
    closure = close_losses(trial, DROP.params(), dut_driver=driver, tester_driver="veth")
    assert closure.decreased == (("ethtool.rx_queue_0_drops",) if open_ else ())
    assert ("counter_decreased" in validity.flag_names(validity.find_flags(trial, DROP.params(), closure))) == open_

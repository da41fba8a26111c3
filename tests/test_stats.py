# SPDX-License-Identifier: GPL-2.0-or-later
"""Rates from counters, and intervals against values known from elsewhere."""

import math
from dataclasses import replace

import numpy as np
import pytest
from made_trials import INTERVAL_NS, OUTSIDE, SAMPLES, make_trial
from recorded import load_recording
from scipy import stats as scipy_stats

from xdprepro import intervals, stats
from xdprepro.cases import Case
from xdprepro.kinds import CASE_KINDS
from xdprepro.sample import Sample, Trial

DROP = Case("xdp.drop.no-touch")
TX = Case("xdp.tx.swap-macs")
XSK = Case("xsk.rxdrop")


EVERY_CASE = [
    *map(Case, CASE_KINDS),
    *(Case("xdp.redirect-cpu.no-touch", remote=remote) for remote in ("drop", "pass", "redirect")),
]


def rate_of(trial: Trial, case: Case) -> stats.Rate:
    rate = stats.trial_rate(trial, case.params())
    assert rate is not None
    return rate


def with_samples(trial: Trial, *samples: Sample) -> Trial:
    return replace(trial, dut=replace(trial.dut, samples=samples))


# Rates


def test_rate_is_the_counter_difference_over_the_measure_window() -> None:
    rate = rate_of(make_trial(DROP, ns=80.0), DROP)
    assert (rate.packets, rate.window_ns) == (12_500_000, INTERVAL_NS * (SAMPLES - 1))
    assert rate.pps == 12.5e6
    assert rate.ns_per_packet == 80.0


def test_settle_and_drain_do_not_count() -> None:
    trial = make_trial(DROP)
    settle = Sample("settle", 1, 2, {})
    drain = Sample("drain", 10**12, 10**12, {"xdp_prog.cpu0.rxq0.XDP_DROP.packets": 10**12})
    assert rate_of(with_samples(trial, settle, *trial.dut.samples, drain), DROP) == rate_of(trial, DROP)


def test_only_the_wanted_action_counts() -> None:
    first = Sample("measure", 0, 1000, {"xdp_prog.cpu0.rxq0.XDP_DROP.packets": 5})
    counters = {"xdp_prog.cpu0.rxq0.XDP_DROP.packets": 15, "xdp_prog.cpu0.rxq0.XDP_PASS.packets": 7}
    last = Sample("measure", 1000, 2000, counters)
    assert rate_of(with_samples(make_trial(DROP), first, last), DROP).packets == 10


def test_counters_of_all_cpus_and_queues_are_summed() -> None:
    first = Sample("measure", 0, 1000, {})
    names = ("cpu0.rxq0", "cpu0.rxq1", "cpu11.rxq0")
    last = Sample("measure", 1000, 2000, {f"xdp_prog.{name}.XDP_DROP.packets": 4 for name in names})
    rate = rate_of(with_samples(make_trial(DROP), first, last), DROP)
    assert (rate.packets, rate.cores) == (12, 2)


def test_a_socket_case_counts_what_the_application_received() -> None:
    first = Sample("measure", 0, 1000, {"xsk_app.q0.rx_packets": 1})
    counters = {"xsk_app.q0.rx_packets": 11, "xsk_app.q1.rx_packets": 3, "xdp_prog.cpu0.rxq0.XDP_REDIRECT.packets": 50}
    last = Sample("measure", 1000, 2000, counters)
    assert rate_of(with_samples(make_trial(XSK), first, last), XSK).packets == 13


def test_ns_are_of_one_core() -> None:
    rate = rate_of(make_trial(DROP, ns=80.0, cores=2), DROP)
    assert (rate.cores, rate.pps, rate.ns_per_packet) == (2, 25e6, 80.0)


def test_a_cpu_with_a_stray_packet_is_no_core() -> None:
    trial = make_trial(DROP)
    *rest, last = trial.dut.samples
    stray = replace(last, counters={**last.counters, "xdp_prog.cpu1.rxq0.XDP_DROP.packets": 64})
    assert rate_of(with_samples(trial, *rest, stray), DROP).cores == 1


@pytest.mark.parametrize(("attach_mode", "cores"), [("native", 1), ("skb", 2)])
def test_a_native_queue_that_moves_between_cpus_is_one_core(attach_mode: str, cores: int) -> None:
    first = Sample("measure", 0, 1000, {})
    last = Sample("measure", 1000, 2000, {f"xdp_prog.cpu{cpu}.rxq0.XDP_DROP.packets": 50 for cpu in (0, 1)})
    trial = with_samples(make_trial(DROP), first, last)
    assert rate_of(trial, replace(DROP, attach_mode=attach_mode)).cores == cores


def test_forwarded_packets_count_only_as_far_as_they_came_back() -> None:
    rate = rate_of(make_trial(TX, ns=100.0, returned_share=0.75), TX)
    assert rate.packets == 10_000_000
    assert rate.pps == pytest.approx(7.5e6, rel=1e-6)
    assert rate.ns_per_packet == pytest.approx(100 / 0.75, rel=1e-6)


@pytest.mark.parametrize("case", EVERY_CASE, ids=lambda case: case.id)
@pytest.mark.parametrize("share", [1.0, 0.75])
def test_every_case_has_the_rate_of_what_reached_its_end(case: Case, share: float) -> None:
    rate = rate_of(make_trial(case, ns=100.0, returned_share=share), case)
    leaves = case.role in ("forward", "transmit")
    assert rate.packets == 10_000_000
    assert rate.pps == pytest.approx(1e7 * (share if leaves else 1), rel=1e-6)


def test_a_sender_has_the_cores_of_its_threads() -> None:
    case = Case("xsk.txonly", xsk_threads=2)
    params = case.params() | {"cpus": {"sampler": 0, "apps": [1, 2], "remotes": [], "generators": []}}
    rate = stats.trial_rate(make_trial(case), params)
    assert rate is not None
    assert rate.cores == 2


def test_what_the_work_drops_is_as_good_as_returned() -> None:
    """A quarter is dropped by XDP, and the application's ring is full now and then; all that it took came back."""
    trial, case = load_recording("lbfw")
    assert rate_of(trial, case).returned == 1.0


def test_what_an_application_drops_as_its_work_is_not_lost() -> None:
    case = Case("xsk.l2fwd.lbfw")
    total = 10_000_000 + OUTSIDE
    dropped = {"xsk_app.q0.dropped": total // 4, "xsk_app.q0.tx_packets": -(total // 4)}
    trial = make_trial(case, returned_share=0.75, dut_end=dropped)
    assert rate_of(trial, case).returned == pytest.approx(1.0, abs=1e-6)


def test_foreign_packets_do_not_add_to_the_forwarding_rate() -> None:
    trial = make_trial(TX, tester_end={"xdp_prog.cpu0.rxq0.XDP_DROP.packets": 5_000_000})
    assert rate_of(trial, TX).returned == 1.0


def test_nothing_forwarded_is_a_rate_of_zero() -> None:
    trial = make_trial(TX)
    rate = rate_of(replace(trial, dut=replace(trial.dut, edges={})), TX)
    assert (rate.pps, rate.ns_per_packet) == (0.0, math.inf)


@pytest.mark.parametrize("count", [0, 1])
def test_no_rate_from_fewer_than_two_samples(count: int) -> None:
    trial = make_trial(DROP)
    assert stats.trial_rate(with_samples(trial, *trial.dut.samples[:count]), DROP.params()) is None


def test_no_rate_when_no_time_passed() -> None:
    sample = make_trial(DROP).dut.samples[0]
    assert stats.trial_rate(with_samples(make_trial(DROP), sample, sample), DROP.params()) is None


def test_no_packets_is_a_rate_of_zero() -> None:
    first = make_trial(DROP).dut.samples[0]
    last = replace(first, t1_ns=first.t1_ns + 1000)
    rate = rate_of(with_samples(make_trial(DROP), first, last), DROP)
    assert (rate.packets, rate.pps, rate.ns_per_packet, rate.cores) == (0, 0.0, math.inf, 1)


def test_counters_beyond_double_precision_keep_their_last_packet() -> None:
    name = "xdp_prog.cpu0.rxq0.XDP_DROP.packets"
    samples = [Sample("measure", 0, 1000 + n, {name: 2**60 + n}) for n in (1, 2)]
    assert rate_of(with_samples(make_trial(DROP), *samples), DROP).packets == 1


# Intervals


def test_restart_means_are_in_the_order_of_restarts() -> None:
    assert intervals.restart_means({2: [5.0], 0: [1.0, 2.0, 3.0]}).tolist() == [2.0, 5.0]


def test_estimate_is_students_interval() -> None:
    values = [101.0, 99.5, 100.2, 102.9]
    found = intervals.estimate(values, 0.99)
    wanted = scipy_stats.t.interval(0.99, 3, loc=np.mean(values), scale=scipy_stats.sem(values))
    assert found.n == 4
    assert found.interval == pytest.approx(wanted)
    assert found.sd == pytest.approx(np.std(values, ddof=1))


def test_one_restart_has_a_mean_and_no_interval() -> None:
    assert intervals.estimate([100.0]) == intervals.Estimate(1, 100.0, None, None)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize(("n_a", "n_b"), [(2, 2), (3, 3), (5, 9), (30, 4)])
def test_welch_is_that_of_scipy(n_a: int, n_b: int, level: float) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(100, 1, n_a), rng.normal(101, 4, n_b)
    found = intervals.welch_interval(a, b, level=level)
    wanted = scipy_stats.ttest_ind(b, a, equal_var=False)
    low, high = wanted.confidence_interval(level)
    assert (found.low, found.high, found.p, found.dof) == pytest.approx((low, high, wanted.pvalue, wanted.df))
    assert found.delta == pytest.approx(b.mean() - a.mean())


def test_paired_interval_is_that_of_scipy() -> None:
    rng = np.random.default_rng(2)
    a = rng.normal(100, 5, 7)
    b = a + rng.normal(1, 0.5, 7)
    found = intervals.paired_interval(a, b, level=0.95)
    wanted = scipy_stats.ttest_rel(b, a)
    low, high = wanted.confidence_interval(0.95)
    assert (found.low, found.high, found.p) == pytest.approx((low, high, wanted.pvalue))


def test_relative_interval_is_the_same_seen_from_either_side() -> None:
    a, b = [100.0, 101.0, 99.0], [110.0, 112.0, 111.0]
    there, back = intervals.relative_interval(a, b), intervals.relative_interval(b, a)
    assert there.delta == pytest.approx(11.0, abs=0.01)
    assert (1 + there.delta / 100) * (1 + back.delta / 100) == pytest.approx(1.0)
    assert (1 + there.low / 100) * (1 + back.high / 100) == pytest.approx(1.0)


def test_no_interval_from_one_value_a_side() -> None:
    with pytest.raises(ValueError, match="two values a side, not 1 and 5"):
        intervals.welch_interval([1.0], [1.0] * 5)
    with pytest.raises(ValueError, match="two pairs, not 1"):
        intervals.paired_interval([1.0], [2.0])


def test_without_spread_the_interval_is_a_point() -> None:
    assert intervals.welch_interval([5.0, 5.0], [5.0, 5.0]) == intervals.Difference(0.0, 0.0, 0.0, 2.0, 1.0)
    assert intervals.welch_interval([5.0, 5.0], [6.0, 6.0, 6.0]) == intervals.Difference(1.0, 1.0, 1.0, 3.0, 0.0)


def test_spread_on_one_side_only_still_has_an_interval() -> None:
    found = intervals.welch_interval([5.0, 5.0, 5.0], [5.0, 6.0, 7.0], level=0.95)
    assert found.dof == pytest.approx(2)
    assert (found.low, found.high) == pytest.approx(scipy_stats.t.interval(0.95, 2, loc=1, scale=1 / math.sqrt(3)))


# What can be detected: statistics by an exact noncentral t, tabulated with an independent program.


@pytest.mark.parametrize(
    ("n", "multiple"),
    [(3, 5.5), (4, 3.8), (5, 3.1), (6, 2.7), (8, 2.2), (10, 1.9), (15, 1.5), (20, 1.3), (30, 1.0)],
)
def test_detectable_effect_in_units_of_the_spread(n: int, multiple: float) -> None:
    assert round(intervals.minimum_detectable_effect(n, n, sd_a=1, sd_b=1), 1) == multiple


@pytest.mark.parametrize(
    ("alpha", "restarts"),
    [
        (0.05, [86, 39, 23, 11, 7, 4, 3, 3]),
        (0.01, [121, 55, 32, 15, 10, 6, 4, 3]),
        (0.001, [170, 78, 45, 22, 14, 8, 6, 4]),
    ],
)
def test_restarts_needed_for_an_effect(alpha: float, restarts: list[int]) -> None:
    effects = (0.5, 0.75, 1, 1.5, 2, 3, 4, 6)
    assert [intervals.restarts_needed(effect, sd_a=1, sd_b=1, alpha=alpha) for effect in effects] == restarts


def test_detectable_effect_is_found_as_often_as_promised() -> None:
    rng = np.random.default_rng(3)
    effect = intervals.minimum_detectable_effect(5, 8, sd_a=1, sd_b=2, alpha=0.05, power=0.9)
    a, b = rng.normal(0, 1, (20_000, 5)), rng.normal(effect, 2, (20_000, 8))
    p = scipy_stats.ttest_ind(a, b, axis=1, equal_var=False).pvalue
    assert np.mean(p < 0.05) == pytest.approx(0.9, abs=0.01)


def test_detectable_effect_scales_with_the_spread() -> None:
    one = intervals.minimum_detectable_effect(4, 6, sd_a=1, sd_b=2)
    assert intervals.minimum_detectable_effect(4, 6, sd_a=3, sd_b=6) == pytest.approx(3 * one)


def test_without_spread_anything_is_detectable() -> None:
    assert intervals.minimum_detectable_effect(3, 3, sd_a=0, sd_b=0) == 0
    assert intervals.restarts_needed(0.1, sd_a=0, sd_b=0) == 2


def test_an_effect_too_small_has_no_number_of_restarts() -> None:
    assert intervals.restarts_needed(0.01, sd_a=1, sd_b=1) is None


def test_nothing_is_detectable_with_one_restart() -> None:
    with pytest.raises(ValueError, match="not from 1 and 3"):
        intervals.minimum_detectable_effect(1, 3, sd_a=1, sd_b=1)


# Many cases, many runs


def test_benjamini_hochberg_is_that_of_scipy() -> None:
    p = np.random.default_rng(4).uniform(0, 1, 25) ** 3
    assert intervals.benjamini_hochberg(p) == pytest.approx(scipy_stats.false_discovery_control(p))


def test_benjamini_hochberg_of_the_papers_example() -> None:
    p = [
        0.0001,
        0.0004,
        0.0019,
        0.0095,
        0.0201,
        0.0278,
        0.0298,
        0.0344,
        0.0459,
        0.3240,
        0.4262,
        0.5719,
        0.6528,
        0.759,
        1.0,
    ]
    assert int(np.sum(intervals.benjamini_hochberg(p) <= 0.05)) == 4


def test_benjamini_hochberg_of_nothing() -> None:
    assert intervals.benjamini_hochberg([]).tolist() == []


@pytest.mark.parametrize(("restarts", "sd_between", "sd_within"), [(3, 1.0, 1.0), (5, 1.0, 0.1), (10, 0.2, 1.0)])
def test_identical_kernels_differ_no_more_often_than_they_should(
    restarts: int, sd_between: float, sd_within: float
) -> None:
    rng = np.random.default_rng(5)
    called = [
        intervals.welch_interval(*(_campaign(rng, restarts, sd_between, sd_within) for _ in "AB"), level=0.95).p < 0.05
        for _ in range(2000)
    ]
    assert 0.02 <= np.mean(called) <= 0.06


def test_pooled_trials_would_call_identical_kernels_different() -> None:
    rng = np.random.default_rng(6)
    called = []
    for _ in range(300):
        a, b = (rng.normal(rng.normal(100, 1, (5, 1)), 1.0, (5, 30)).ravel() for _ in "AB")
        called.append(intervals.welch_interval(a, b, level=0.95).p < 0.05)
    assert np.mean(called) > 0.5


def _campaign(rng: np.random.Generator, restarts: int, sd_between: float, sd_within: float) -> intervals.Floats:
    """Restart means of a kernel at 100 ns: thirty trials a restart, which share the restart's own offset."""
    trials = rng.normal(rng.normal(100, sd_between, (restarts, 1)), sd_within, (restarts, 30))
    return intervals.restart_means({boot: row.tolist() for boot, row in enumerate(trials)})

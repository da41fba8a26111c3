# SPDX-License-Identifier: GPL-2.0-or-later
"""The search for a loss-bounded rate, against devices whose limits are known."""

import random
from collections.abc import Callable

import pytest

from xdprepro.search import MAX_STEPS, RESOLUTION, Bounds, Step, find_bounds, run_search

RATIOS = (0.0, 0.001, 0.005)

Device = Callable[[int], Step | None]


def device(capacity_pps: float, *, generator_pps: float = 1e12) -> Device:
    """One that handles so much and not a packet more, fed by a generator that can do so much."""

    def measure(load_pps: int) -> Step:
        sent = min(load_pps, round(generator_pps))
        return Step(load_pps, sent, min(sent, round(capacity_pps)), sent / load_pps)

    return measure


def search(measure: Device, *, max_pps: float = 5e6, width: float = 0.005) -> tuple[Step, ...]:
    return run_search(measure, max_pps=max_pps, loss_ratios=RATIOS, width=width)


@pytest.mark.parametrize("capacity_pps", [12_345, 99_999, 1_000_000, 3_333_333, 4_990_000])
@pytest.mark.parametrize("ratio", RATIOS)
def test_bounds_enclose_the_rate_and_are_as_close_as_asked(capacity_pps: int, ratio: float) -> None:
    steps = search(device(capacity_pps))
    bounds = find_bounds(steps, ratio)
    # At the highest load that loses no more than allowed, the device handles its capacity.
    highest_pps = capacity_pps / (1 - ratio)
    assert bounds.lower_pps is not None
    assert bounds.lower_pps <= highest_pps + 1
    if bounds.upper_pps is None:
        assert bounds.lower_pps == 5_000_000
        return
    assert highest_pps <= bounds.upper_pps
    assert bounds.width is not None
    assert bounds.width <= 0.005
    assert not bounds.is_quantised(5_000_000)
    assert len(steps) < 20


def test_a_coarse_search_is_quantised() -> None:
    bounds = find_bounds(search(device(1_234_567), width=0.2), 0.0)
    assert bounds.width is not None
    assert RESOLUTION < bounds.width <= 0.2
    assert bounds.is_quantised(5_000_000)


def test_a_device_faster_than_its_generator_has_no_upper_bound() -> None:
    steps = search(device(9e6))
    assert [step.load_pps for step in steps] == [5_000_000]
    bounds = find_bounds(steps, 0.0)
    assert (bounds.lower_pps, bounds.upper_pps, bounds.width) == (5_000_000, None, None)
    assert not bounds.is_quantised(5_000_000)


def test_without_an_upper_bound_only_the_highest_load_is_certain() -> None:
    assert Bounds(0.0, 100, None).is_quantised(200)
    assert not Bounds(0.0, 200, None).is_quantised(200)
    assert Bounds(0.0, None, 100).is_quantised(200)


def test_a_device_that_handles_nothing_has_no_lower_bound() -> None:
    bounds = find_bounds(search(device(0)), 0.0)
    assert bounds.lower_pps is None
    assert bounds.upper_pps is not None


def test_what_a_generator_could_not_send_counts_as_lost() -> None:
    bounds = find_bounds(search(device(9e6, generator_pps=3e6)), 0.0)
    assert bounds.lower_pps is not None
    # It keeps its rate within 1 % up to 1 % above what it can do.
    assert 2_980_000 < bounds.lower_pps < 3_040_000


def test_a_noisy_device_gives_bounds_that_its_own_steps_bear_out() -> None:
    rng = random.Random(1)

    def measure(load_pps: int) -> Step:
        return Step(load_pps, load_pps, min(load_pps, round(rng.uniform(0.98, 1.0) * 2e6)))

    steps = search(measure)
    for ratio in RATIOS:
        bounds = find_bounds(steps, ratio)
        bad = [step.load_pps for step in steps if step.loss_ratio > ratio]
        assert bounds.upper_pps == min(bad)
        assert all(step.loss_ratio <= ratio for step in steps if step.load_pps == bounds.lower_pps)
        assert 1_900_000 < (bounds.lower_pps or 0) < 2_030_000


def test_a_device_that_loses_at_random_ends_the_search_all_the_same() -> None:
    rng = random.Random(1)
    steps = search(lambda load_pps: Step(load_pps, load_pps, load_pps - rng.randrange(2)), width=0.0001)
    assert 0 < len(steps) <= MAX_STEPS


def test_none_ends_the_search_and_keeps_what_was_measured() -> None:
    left = [3]

    def measure(load_pps: int) -> Step | None:
        left[0] -= 1
        return device(1e6)(load_pps) if left[0] >= 0 else None

    assert len(search(measure)) == 3


def test_a_load_with_one_bad_step_is_bad() -> None:
    steps = [Step(100, 1000, 1000), Step(200, 1000, 1000), Step(200, 1000, 999), Step(300, 1000, 1000)]
    assert find_bounds(steps, 0.0) == Bounds(0.0, 100, 200)
    assert find_bounds(steps, 0.001) == Bounds(0.001, 300, None)


@pytest.mark.parametrize(("kept", "lost"), [(1.0, 0.1), (0.995, 0.1), (0.9, 0.19), (0.0, 0.1)])
def test_packets_not_sent_are_lost_where_the_rate_was_not_kept(kept: float, lost: float) -> None:
    assert Step(100, 1000, 900, kept).loss_ratio == pytest.approx(lost, abs=1e-3)

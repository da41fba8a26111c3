# SPDX-License-Identifier: GPL-2.0-or-later
"""The search for the highest load with no more than a share of packets lost: which loads to try, and what they tell.

The loads are chosen by MLRsearch, the algorithm of the Internet draft draft-ietf-bmwg-mlrsearch in the library of its
authors. What was found follows from the steps alone, by the draft's definition of relevant bounds, so an archive can
be read without the library, and by a later one. One trial of full length decides on a load, as in RFC 2544.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import MLRsearch

# A search that has not ended by then never will: the DUT loses packets at random.
MAX_STEPS = 100
# The lowest load of a search, as a share of the highest.
LOWEST = 0.001
# What a generator that keeps its rate may be off by; packets that it did not send are not lost by the DUT.
PACING = 0.01
# A found rate that is less certain than this has been quantised: it jumps from one load tried to the next.
RESOLUTION = 0.005


@dataclass(frozen=True, slots=True)
class Step:
    """One trial of a search: packets that were sent, and that reached their end; `kept` is the share of its load that
    the generator kept up, 1 where it did what it was told."""

    load_pps: int
    sent: int
    handled: int
    kept: float = 1.0

    @property
    def is_paced(self) -> bool:
        """Whether the generator kept the rate."""
        return self.kept >= 1 - PACING

    @property
    def wanted(self) -> int:
        """Packets that the load asked for; where the rate was not kept, those that were not sent are among them."""
        return self.sent if self.is_paced or not self.kept else round(self.sent / self.kept)

    @property
    def loss_ratio(self) -> float:
        """The share of packets that were asked for and did not reach their end (as MLRsearch has it)."""
        return max(0, self.wanted - self.handled) / self.wanted if self.wanted else 1.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """The highest good load below the lowest bad one, with its steps; None for a bound that no step set."""

    loss_ratio: float
    lower_pps: int | None
    upper_pps: int | None

    @property
    def width(self) -> float | None:
        """The distance of the bounds in units of the upper one; None without both. Loads are whole numbers."""
        if self.lower_pps is None or self.upper_pps is None:
            return None
        return max(0, self.upper_pps - self.lower_pps - 1) / self.upper_pps

    def is_quantised(self, highest_pps: int) -> bool:
        """Whether the rate is less certain than it has to be for a verdict; the highest load needs no upper bound."""
        return self.lower_pps != highest_pps if self.width is None else self.width > RESOLUTION


def find_bounds(steps: Iterable[Step], loss_ratio: float) -> Bounds:
    """The relevant bounds of a loss ratio: a load is bad if any of its steps lost more, and good otherwise."""
    worst: dict[int, float] = {}
    for step in steps:
        worst[step.load_pps] = max(worst.get(step.load_pps, 0.0), step.loss_ratio)
    upper = min((load for load, lost in worst.items() if lost > loss_ratio), default=None)
    lower = max((load for load in worst if upper is None or load < upper), default=None)
    return Bounds(loss_ratio, lower, upper)


class _EnoughError(Exception):
    """The search takes more steps than it may, or is told to stop."""


class _Measurer(MLRsearch.AbstractMeasurer):  # type: ignore[misc]  # the library has no types
    """What the library asks for a trial."""

    def __init__(self, measure: Callable[[int], Step | None]) -> None:
        self.measure_step = measure
        self.steps: list[Step] = []

    def measure(self, intended_duration: float, intended_load: float) -> MLRsearch.MeasurementResult:
        """One step, in the library's words; packets that the generator owes are `unsent` to it."""
        if len(self.steps) == MAX_STEPS:
            raise _EnoughError
        step = self.measure_step(round(intended_load))
        if step is None:
            raise _EnoughError
        self.steps.append(step)
        return MLRsearch.MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=step.sent,
            forwarding_count=min(step.handled, step.sent),
            intended_count=step.wanted,
        )


def run_search(
    measure: Callable[[int], Step | None], *, max_pps: float, loss_ratios: Sequence[float], width: float
) -> tuple[Step, ...]:
    """All steps of the search for several loss ratios at once, down to a relative width, in their order.

    `measure` is called with each load in packets a second; None from it ends the search early.
    """
    goals = [
        MLRsearch.SearchGoal(
            loss_ratio=loss_ratio,
            exceed_ratio=0.0,
            relative_width=width,
            initial_trial_duration=1.0,
            final_trial_duration=1.0,
            duration_sum=1.0,
            preceding_targets=2,
            expansion_coefficient=2,
            fail_fast=False,
        )
        for loss_ratio in sorted(loss_ratios)
    ]
    config = MLRsearch.Config(
        goals=goals,
        min_load=max(1.0, LOWEST * max_pps),
        max_load=max_pps,
        search_duration_max=float("inf"),
        warmup_duration=None,
    )
    measurer = _Measurer(measure)
    with contextlib.suppress(_EnoughError):
        MLRsearch.MultipleLossRatioSearch(config=config).search(measurer=measurer)
    return tuple(measurer.steps)

# SPDX-License-Identifier: GPL-2.0-or-later
"""How long a suite takes: what its cases say, and first guesses of what is between them."""

from collections.abc import Iterable

from xdprepro.cases import Case
from xdprepro.load import make_calibrations
from xdprepro.suite import Suite

OVERHEAD_S = 0.5  # starting and stopping the agents of one trial
RESTART_S = 4.0  # making the lab anew
SEARCH_STEPS = 12  # of one search
BOOT_S = 12.0  # a guest's boot, until its first trial
COUNTED_S = 2.0  # the windows of a case that is counted in a guest


def slot_s(case: Case, *, overhead_s: float = OVERHEAD_S) -> float:
    """One place of a plan; a search is as many trials as it takes."""
    return (case.settle_s + case.measure_s + overhead_s) * (SEARCH_STEPS if case.load == "search" else 1)


def suite_s(suite: Suite, cases: Iterable[Case]) -> float:
    """Those cases of a suite on a lab of this machine, with what calibrates their generators."""
    cases = tuple(cases)
    # A search is once a restart, whatever the number of trials.
    round_s = [slot_s(c) * (1 if c.load == "search" else suite.trials) for c in (*cases, *make_calibrations(cases))]
    return suite.restarts * (RESTART_S + sum(round_s)) if cases else 0.0


def boots_s(cases_per_boot: Iterable[int], *, at_once: int) -> float:
    """Guests that count so many cases each, some at once."""
    return sum(BOOT_S + COUNTED_S * cases for cases in cases_per_boot) / at_once

# SPDX-License-Identifier: GPL-2.0-or-later
"""A run with what follows from its counters: rates, balances and flags, and the restart means of each case."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from xdprepro import intervals
from xdprepro.cases import complete_params
from xdprepro.closure import Closure, close_trial
from xdprepro.intervals import Estimate
from xdprepro.kinds import CASE_KINDS
from xdprepro.load import Limits, find_limits, read_step
from xdprepro.sample import Run, Trial
from xdprepro.search import Bounds, find_bounds
from xdprepro.stats import Rate, is_counted, measures_rate, trial_rate
from xdprepro.validity import excluding, find_first, find_flags, find_load_flags, flag_names


@dataclass(frozen=True, slots=True)
class TrialView:
    """A trial with what follows from its counters."""

    trial: Trial
    rate: Rate | None
    closure: Closure
    flags: int

    @property
    def usable(self) -> bool:
        """Whether a verdict may use it."""
        return not excluding(self.flags)


@dataclass(frozen=True, slots=True)
class RunView:
    """A run with what follows from its counters, trial by trial in the order of execution."""

    run: Run
    trials: tuple[TrialView, ...]

    def of_case(self, case_id: str) -> tuple[TrialView, ...]:
        """The trials of one case."""
        return tuple(view for view in self.trials if view.trial.key.case_id == case_id)


# What a step of a search may be: loads above what the DUT takes are not kept, or come in gusts.
TOLERATED = frozenset({"pacing_off", "search_quantised", "short_warmup", "load_gap", "line_bound", "lost_in_burst"})


@dataclass(frozen=True, slots=True)
class Search:
    """What a search found in one restart for one loss ratio. `best` are its steps at the lower bound, `broken` those
    that it cannot be trusted for; `usable` says whether a verdict may use it."""

    boot: int
    bounds: Bounds
    steps: int
    best: tuple[TrialView, ...]
    broken: tuple[TrialView, ...]
    usable: bool

    @property
    def pps(self) -> float | None:
        """What reached its end at the lower bound, as measured; None where no load was good."""
        rates = [one.rate.pps for one in self.best if one.rate]
        return sum(rates) / len(rates) if rates else None


@dataclass(frozen=True, slots=True)
class CaseRates:
    """One case of one run: usable trials as restart means of ns per packet and core, and of ns between packets."""

    boots: tuple[int, ...]
    ns: intervals.Floats
    gap_ns: intervals.Floats
    trials: int
    excluded: tuple[tuple[Trial, tuple[str, ...]], ...]
    bound: bool = False  # in every one of its trials the generator may have been the limit

    def estimate(self, level: float = intervals.LEVEL) -> Estimate | None:
        """Mean ns per packet with its interval; None without a usable trial."""
        return intervals.estimate(self.ns, level) if self.boots else None

    @property
    def pps(self) -> float | None:
        """Packets a second, the harmonic mean: packets over time."""
        return 1e9 / float(self.gap_ns.mean()) if self.boots else None

    def pps_interval(self, level: float = intervals.LEVEL) -> tuple[float, float] | None:
        """The interval of `pps`; none where the noise leaves it open above."""
        gap = intervals.estimate(self.gap_ns, level).interval if self.boots else None
        return (1e9 / gap[1], 1e9 / gap[0]) if gap and gap[0] > 0 else None


def view_run(run: Run) -> RunView:
    """Rates, balances and flags of all trials of a run; cases of a newer version are as good as skipped."""
    known = {case_id: complete_params(params) for case_id, params in run.cases.items() if params["case"] in CASE_KINDS}
    unknown = {
        key: f"this version of xdprepro has no case {run.cases[key]['case']}" for key in run.cases.keys() - known
    }
    run = replace(run, cases=known, skipped={**run.skipped, **unknown})
    run = replace(run, trials=tuple(trial for trial in run.trials if trial.key.case_id in known))
    limits = find_limits(run)
    return RunView(run, tuple(view_trial(trial, run, limits) for trial in run.trials))


def view_trial(trial: Trial, run: Run, limits: Limits) -> TrialView:
    """Rate, balance and flags of one trial."""
    params = run.cases[trial.key.case_id]
    closure = close_trial(trial, run)
    rate = trial_rate(trial, params) if measures_rate(params) and not is_counted(params) else None
    flags = find_flags(trial, params, closure, first=find_first(trial, run), others=run.trials)
    return TrialView(trial, rate, closure, flags | find_load_flags(trial, run, closure, limits))


def why_no_figure(view: RunView, case_id: str) -> str:
    """Why a case of a run has nothing to be compared."""
    if case_id in view.run.skipped:
        return f"skipped: {view.run.skipped[case_id]}"
    trials = view.of_case(case_id)
    if not trials:
        return "no trial"
    if any(one.usable for one in trials):
        return "no boot has a usable short and a usable long window"
    flags = sorted({flag for one in trials for flag in excluding(one.flags)})
    return f"all {len(trials)} trials excluded: {', '.join(flags)}"


def loss_ratios(params: Mapping[str, Any]) -> tuple[float | None, ...]:
    """What a case has figures of: the shares of packets that its search allows to be lost, or just itself."""
    return tuple(params["loss_ratios"]) if params.get("load") == "search" else (None,)


def figure_name(case_id: str, loss_ratio: float | None) -> str:
    """The name of a figure of a case: no drop rate (NDR) or partial drop rate (PDR) of a search, or just the case."""
    if loss_ratio is None:
        return case_id
    return f"{case_id}@{f'pdr-{100 * loss_ratio:g}%' if loss_ratio else 'ndr'}"


def find_searches(view: RunView, case_id: str, loss_ratio: float) -> tuple[Search, ...]:
    """What the search of each restart found, from the counters of its steps."""
    params = view.run.cases[case_id]
    boots: dict[int, list[TrialView]] = {}
    for one in view.of_case(case_id):
        boots.setdefault(one.trial.key.boot, []).append(one)
    return tuple(_find_search(boot, boots[boot], params, loss_ratio) for boot in sorted(boots))


def _find_search(boot: int, trials: list[TrialView], params: Mapping[str, Any], loss_ratio: float) -> Search:
    steps = [(one, read_step(one.trial, params)) for one in trials if one.trial.status == "ok"]
    bounds = find_bounds([step for _, step in steps], loss_ratio)
    best = tuple(one for one, step in steps if step.load_pps == bounds.lower_pps)
    # A bound that a burst set is none.
    burst = {one.trial.key for one, step in steps if step.load_pps == bounds.upper_pps and _is_burst(one)}
    broken = tuple(one for one in trials if set(excluding(one.flags)) - TOLERATED or one.trial.key in burst)
    usable = bool(best) and not broken and all(one.usable and one.rate for one in best)
    return Search(boot, bounds, len(trials), best, broken, usable)


def _is_burst(one: TrialView) -> bool:
    return "lost_in_burst" in flag_names(one.flags)


def case_rates(view: RunView, case_id: str, loss_ratio: float | None = None) -> CaseRates:
    """The figures of one case of one run, from the trials that a verdict may use; of a search, those of one loss ratio
    from the steps at its lower bounds."""
    trials = view.of_case(case_id)
    if loss_ratio is not None:
        searches = find_searches(view, case_id, loss_ratio)
        found = tuple(one for search in searches if search.usable for one in search.best)
        broken = tuple(one for search in searches for one in search.broken)
        return _make_rates(found, broken)
    return _make_rates(trials, tuple(one for one in trials if not one.usable))


def _make_rates(trials: tuple[TrialView, ...], left_out: tuple[TrialView, ...]) -> CaseRates:
    ns: dict[int, list[float]] = {}
    gaps: dict[int, list[float]] = {}
    used = [(one, one.rate) for one in trials if one.usable and one.rate]
    for one, rate in used:
        ns.setdefault(one.trial.key.boot, []).append(rate.ns_per_packet)
        gaps.setdefault(one.trial.key.boot, []).append(1e9 / rate.pps)
    return CaseRates(
        boots=tuple(sorted(ns)),
        ns=intervals.restart_means(ns),
        gap_ns=intervals.restart_means(gaps),
        trials=len(used),
        excluded=tuple((one.trial, excluding(one.flags)) for one in left_out),
        bound=bool(used) and all("generator_bound" in flag_names(one.flags) for one, _ in used),
    )

# SPDX-License-Identifier: GPL-2.0-or-later
"""A run with what follows from its counters: rates, balances and flags, and the restart means of each case."""

from dataclasses import dataclass, replace

from xdprepro import stats
from xdprepro.cases import complete_params
from xdprepro.closure import Closure, close_trial
from xdprepro.kinds import CASE_KINDS
from xdprepro.sample import Run, Trial
from xdprepro.stats import Estimate, Rate, is_counted, trial_rate
from xdprepro.validity import excluding, find_first, find_flags


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


@dataclass(frozen=True, slots=True)
class CaseRates:
    """One case of one run: usable trials as restart means of ns per packet and core, and of ns between packets."""

    boots: tuple[int, ...]
    ns: stats.Floats
    gap_ns: stats.Floats
    trials: int
    excluded: tuple[tuple[Trial, tuple[str, ...]], ...]

    def estimate(self, level: float = stats.LEVEL) -> Estimate | None:
        """Mean ns per packet with its interval; None without a usable trial."""
        return stats.estimate(self.ns, level) if self.boots else None

    @property
    def pps(self) -> float | None:
        """Packets a second, the harmonic mean: packets over time."""
        return 1e9 / float(self.gap_ns.mean()) if self.boots else None

    def pps_interval(self, level: float = stats.LEVEL) -> tuple[float, float] | None:
        """The interval of `pps`; none where the noise leaves it open above."""
        gap = stats.estimate(self.gap_ns, level).interval if self.boots else None
        return (1e9 / gap[1], 1e9 / gap[0]) if gap and gap[0] > 0 else None


def view_run(run: Run) -> RunView:
    """Rates, balances and flags of all trials of a run; cases of a newer version are as good as skipped."""
    known = {case_id: complete_params(params) for case_id, params in run.cases.items() if params["case"] in CASE_KINDS}
    unknown = {
        key: f"this version of xdprepro has no case {run.cases[key]['case']}" for key in run.cases.keys() - known
    }
    run = replace(run, cases=known, skipped={**run.skipped, **unknown})
    return RunView(run, tuple(view_trial(trial, run) for trial in run.trials if trial.key.case_id in known))


def view_trial(trial: Trial, run: Run) -> TrialView:
    """Rate, balance and flags of one trial."""
    params = run.cases[trial.key.case_id]
    closure = close_trial(trial, run)
    rate = None if is_counted(params) else trial_rate(trial, params)
    flags = find_flags(trial, params, closure, first=find_first(trial, run), others=run.trials)
    return TrialView(trial, rate, closure, flags)


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


def case_rates(view: RunView, case_id: str) -> CaseRates:
    """The figures of one case of one run, from the trials that a verdict may use."""
    trials = view.of_case(case_id)
    ns: dict[int, list[float]] = {}
    gaps: dict[int, list[float]] = {}
    for one in trials:
        if one.usable and one.rate:
            ns.setdefault(one.trial.key.boot, []).append(one.rate.ns_per_packet)
            gaps.setdefault(one.trial.key.boot, []).append(1e9 / one.rate.pps)
    return CaseRates(
        boots=tuple(sorted(ns)),
        ns=stats.restart_means(ns),
        gap_ns=stats.restart_means(gaps),
        trials=sum(map(len, ns.values())),
        excluded=tuple((one.trial, excluding(one.flags)) for one in trials if not one.usable),
    )

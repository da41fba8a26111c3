# SPDX-License-Identifier: GPL-2.0-or-later
"""Two runs side by side: a verdict for each case, in time or in instructions, as it was measured."""

from dataclasses import dataclass, replace

from xdprepro import errors, intervals
from xdprepro.comparable import (
    EMULATED,
    Dimension,
    Mismatch,
    check_comparable,
    diff_kernel_configs,
    find_dimensions,
    is_emulated,
    is_incomparable,
)
from xdprepro.exact import CountComparison, case_counts, judge
from xdprepro.kconfig import ConfigDiff
from xdprepro.sample import Run
from xdprepro.stats import is_counted, measures_rate
from xdprepro.view import CaseRates, RunView, case_rates, figure_name, loss_ratios, why_no_figure

VERDICTS = ("REGRESSED", "IMPROVED", "EQUIVALENT", "INCONCLUSIVE", "EXCLUDED", "INCOMPARABLE")

# Code layout alone moves a figure by this much between builds of one source; restarts do not average it.
MIN_MARGIN_PCT = 0.5
# Share of false discoveries over the cases of one comparison.
FALSE_DISCOVERIES = 0.05
POWER = 0.9


@dataclass(frozen=True, slots=True)
class CaseComparison:
    """One case of both runs, or one loss ratio of a search (view.figure_name).

    Differences are B minus A, slower is positive; None where there are fewer than two restarts on a side or the runs
    are not comparable. `p_adjusted` is p after Benjamini-Hochberg over the cases."""

    case_id: str
    a: CaseRates
    b: CaseRates
    verdict: str
    reason: str
    delta_ns: intervals.Difference | None = None
    delta_pct: intervals.Difference | None = None
    p_adjusted: float | None = None
    mde_ns: float | None = None
    mde_pct: float | None = None
    more_restarts: int | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything to be said about two runs; `dimensions`, `config` and `mismatches` come before the verdicts."""

    a: RunView
    b: RunView
    design: str
    margin_pct: float
    level: float
    dimensions: tuple[Dimension, ...]
    config: ConfigDiff | None
    mismatches: tuple[Mismatch, ...]
    cases: tuple[CaseComparison | CountComparison, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    passes: tuple[str, ...] = ()

    @property
    def timed(self) -> tuple[CaseComparison, ...]:
        """The cases that were measured in time."""
        return tuple(case for case in self.cases if isinstance(case, CaseComparison))

    @property
    def counted(self) -> tuple[CountComparison, ...]:
        """The cases of which instructions were counted."""
        return tuple(case for case in self.cases if isinstance(case, CountComparison))

    def count(self, verdict: str) -> int:
        """How many cases have this verdict."""
        return sum(case.verdict == verdict for case in self.cases)

    @property
    def status(self) -> int:
        """The exit status of a gate: a regression outweighs what is undecided; no case in common decides nothing."""
        if self.count("REGRESSED"):
            return errors.REGRESSED
        decided = self.count("IMPROVED") + self.count("EQUIVALENT")
        return 0 if self.cases and decided == len(self.cases) else errors.UNDECIDED


def compare(
    a: RunView,
    b: RunView,
    *,
    margin_pct: float | None = None,
    level: float = intervals.LEVEL,
    allow_confounded: bool = False,
) -> Comparison:
    """What changed from run A to run B.

    A case that was timed REGRESSED or IMPROVED if the interval of its relative change lies beyond the margin and its p
    stands after Benjamini-Hochberg over the cases; it is EQUIVALENT if the interval lies within the margin. One that
    was counted has no interval, but a bound (exact.find_bound).
    """
    wanted_pct, margin_pct = margin_pct, MIN_MARGIN_PCT if margin_pct is None else margin_pct
    if not margin_pct >= MIN_MARGIN_PCT:
        raise errors.XdpreproError(
            f"margin {margin_pct} % is below {MIN_MARGIN_PCT} %, which code layout alone can cause",
            hint=f"use {MIN_MARGIN_PCT} or more",
            status=errors.USAGE,
        )
    if a.run.run_id == b.run.run_id:
        raise errors.XdpreproError(
            f"A and B are the same run {a.run.run_id}", hint="name two runs", status=errors.USAGE
        )
    mismatches = check_comparable(a.run, b.run)
    known_a, known_b = _known_cases(a.run), _known_cases(b.run)
    common = [one for one in known_a if one in known_b and (one in a.run.cases or one in b.run.cases)]
    passes = tuple(one for one in common if any(not measures_rate(view.run.cases.get(one, {})) for view in (a, b)))
    common = [one for one in common if one not in passes]
    dimensions = find_dimensions(a.run, b.run)
    emulated = EMULATED if is_emulated(a.run) or is_emulated(b.run) else ""
    more = f"the runs differ in more than the {dimensions[0].name if dimensions else 'kernel'}"
    timed: list[CaseComparison] = []
    counted: list[CountComparison] = []
    shown: list[str] = []
    for case_id in common:
        doubt = more if is_incomparable(mismatches, case_id, allow_confounded=allow_confounded) else ""
        if any(is_counted(view.run.cases.get(case_id, {})) for view in (a, b)):
            counted.append(_counts(a, b, case_id, margin_pct=wanted_pct or 0.0, doubt=doubt))
            shown.append(case_id)
            continue
        for loss_ratio in _loss_ratios(a, b, case_id):
            rates_a, rates_b = (case_rates(view, case_id, loss_ratio) for view in (a, b))
            case = CaseComparison(figure_name(case_id, loss_ratio), rates_a, rates_b, verdict="", reason="")
            timed.append(_figures(a, b, case_id, case, margin_pct=margin_pct, level=level, doubt=emulated or doubt))
            shown.append(case.case_id)
    decided: dict[str, CaseComparison | CountComparison] = {case.case_id: case for case in counted}
    shared = a.run.lab_kind == "veth"
    decided |= {case.case_id: _decide(case, margin_pct, level, shared=shared) for case in _adjust(timed)}
    return Comparison(
        a=a,
        b=b,
        design="interleaved" if a.run.plan_id == b.run.plan_id else "unpaired",
        margin_pct=margin_pct,
        level=level,
        dimensions=dimensions,
        config=diff_kernel_configs(a.run, b.run),
        mismatches=mismatches,
        cases=tuple(decided[name] for name in shown),
        only_a=tuple(one for one in a.run.cases if one not in known_b),
        passes=passes,
        only_b=tuple(one for one in b.run.cases if one not in known_a),
    )


def _known_cases(run: Run) -> tuple[str, ...]:
    """All cases of the run's suite; those that could not run there have no parameters, only a reason."""
    return *run.cases, *(case_id for case_id in run.skipped if case_id not in run.cases)


def _counts(a: RunView, b: RunView, case_id: str, *, margin_pct: float, doubt: str) -> CountComparison:
    """The verdict on a case that was counted; `doubt` is why there can be none."""
    counts_a, counts_b = case_counts(a, case_id), case_counts(b, case_id)
    if doubt:
        return CountComparison(case_id, counts_a, counts_b, "INCOMPARABLE", doubt)
    if reason := _why_excluded(a, b, case_id, (not counts_a.boots, not counts_b.boots)):
        return CountComparison(case_id, counts_a, counts_b, "EXCLUDED", reason)
    return judge(counts_a, counts_b, margin_pct=margin_pct)


def _why_excluded(a: RunView, b: RunView, case_id: str, empty: tuple[bool, bool]) -> str:
    """Why there is nothing to compare, by side."""
    sides = zip("AB", (a, b), empty, strict=True)
    return "; ".join(f"{name}: {why_no_figure(view, case_id)}" for name, view, none in sides if none)


def _loss_ratios(a: RunView, b: RunView, case_id: str) -> tuple[float | None, ...]:
    """What the case has figures of; a run that skipped it does not know."""
    return loss_ratios(a.run.cases.get(case_id) or b.run.cases[case_id])


def _figures(
    a: RunView, b: RunView, case_id: str, case: CaseComparison, *, margin_pct: float, level: float, doubt: str
) -> CaseComparison:
    """A case with its figures; the verdict only where there is nothing to decide. `doubt` is why there can be none."""
    rates_a, rates_b = case.a, case.b
    if doubt:
        return replace(case, verdict="INCOMPARABLE", reason=doubt)
    if any(view.run.cases.get(case_id, {}).get("load") == "fixed" for view in (a, b)):
        return replace(case, verdict="EXCLUDED", reason="the load sets this rate, and not the DUT")
    if reason := _why_excluded(a, b, case_id, (not rates_a.boots, not rates_b.boots)):
        return replace(case, verdict="EXCLUDED", reason=reason)
    if min(len(rates_a.boots), len(rates_b.boots)) < 2:
        reason = "one restart has no spread"
        return replace(case, verdict="INCONCLUSIVE", reason=reason)
    sizes = len(rates_a.boots), len(rates_b.boots)
    sd_a, sd_b = (float(rates.ns.std(ddof=1)) for rates in (rates_a, rates_b))
    # A change is called one when its interval is beyond the margin, so the margin comes on top.
    beyond_ns = intervals.minimum_detectable_effect(*sizes, sd_a=sd_a, sd_b=sd_b, alpha=1 - level, power=POWER)
    mde_ns = beyond_ns + margin_pct / 100 * float(rates_a.ns.mean())
    return replace(
        case,
        delta_ns=intervals.welch_interval(rates_a.ns, rates_b.ns, level=level),
        delta_pct=intervals.relative_interval(rates_a.ns, rates_b.ns, level=level),
        mde_ns=mde_ns,
        mde_pct=100 * mde_ns / float(rates_a.ns.mean()),
    )


def _adjust(cases: list[CaseComparison]) -> list[CaseComparison]:
    """The cases with p adjusted over those that have one."""
    tested = [case.delta_ns.p for case in cases if case.delta_ns]
    adjusted = iter(intervals.benjamini_hochberg(tested).tolist())
    return [replace(case, p_adjusted=next(adjusted)) if case.delta_ns else case for case in cases]


def _decide(case: CaseComparison, margin_pct: float, level: float, *, shared: bool) -> CaseComparison:
    """The case with its verdict; `shared`: generator and DUT have a CPU in common, so that either's cost shows."""
    change = case.delta_pct
    if change is None or case.p_adjusted is None:
        return case
    # As a ratio the margin is the same in both directions.
    slower, faster = margin_pct, 100 * (1 / (1 + margin_pct / 100) - 1)
    if faster <= change.low and change.high <= slower:
        if case.a.bound and case.b.bound and not shared:
            return replace(case, verdict="INCONCLUSIVE", reason="the generator was the limit on both sides")
        return replace(case, verdict="EQUIVALENT", reason=f"within {margin_pct:g} %")
    beyond = change.low > slower or change.high < faster
    if beyond and case.p_adjusted <= FALSE_DISCOVERIES:
        return replace(case, verdict="REGRESSED" if change.delta > 0 else "IMPROVED", reason=f"beyond {margin_pct:g} %")
    more = _more_restarts(case, margin_pct, level)
    wants = f"more than {intervals.MAX_RESTARTS} restarts" if more is None else f"about {more} more restarts"
    why = "not significant among all cases, " if beyond else ""
    return replace(case, verdict="INCONCLUSIVE", reason=f"{why}needs {wants}", more_restarts=more)


def _more_restarts(case: CaseComparison, margin_pct: float, level: float) -> int | None:
    """How many restarts a side are wanting to tell the change seen from the margin, or the margin from nothing."""
    assert case.delta_ns is not None
    margin_ns = margin_pct / 100 * float(case.a.ns.mean())
    effect_ns = abs(abs(case.delta_ns.delta) - margin_ns)
    sd_a, sd_b = (float(rates.ns.std(ddof=1)) for rates in (case.a, case.b))
    needed = intervals.restarts_needed(effect_ns, sd_a=sd_a, sd_b=sd_b, alpha=1 - level, power=POWER)
    return None if needed is None else max(1, needed - min(len(case.a.boots), len(case.b.boots)))

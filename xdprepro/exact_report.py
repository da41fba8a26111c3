# SPDX-License-Identifier: GPL-2.0-or-later
"""What a reader of counted runs sees: instructions per packet in tables, where report.py has rates."""

from collections.abc import Iterator, Sequence
from typing import Any

from xdprepro.compare import VERDICTS, Comparison
from xdprepro.costs import CountCost, count_costs
from xdprepro.exact import MIN_BOUND, UNSEEN, CaseCounts, CountComparison, case_counts
from xdprepro.explain import REP_NOTE, find_changes, is_repeating
from xdprepro.report import find_trial_reasons, generator_used, mode_obtained
from xdprepro.sample import PROFILE_SIDES, Profile
from xdprepro.table import Column, Table, digits_cell, list_cell, percent_cell
from xdprepro.validity import MEANINGS, flag_names
from xdprepro.view import RunView, TrialView, why_no_figure

CULPRITS = 3  # functions that a comparison names for each case
NOT_TIME = "instructions are not time: caches, DMA and clocks are not in them (docs/results.md)"

INSN, CHANGE = digits_cell(2), digits_cell(2, sign=True)


def count_table(view: RunView) -> Table:
    """Each case by side, and whether its boots agree."""
    columns = (
        Column("case_id", "case", words=True),
        *(Column(side, side, INSN) for side in (*PROFILE_SIDES, "total")),
        Column("boots", "boots", words=True),
        Column("mode", "mode", words=True, once=True),
        Column("sent_by", "sent by", words=True, once=True),
        Column("packets", "packets", lambda windows: "/".join(map(str, windows)), once=True),
        Column("flags", "flags", list_cell, words=True, once=True),
        Column("note", "note", words=True, once=True),
    )
    rows = tuple(_count_row(view, case_id) for case_id in view.run.cases)
    flags = sorted({flag for row in rows for flag in row["flags"]})
    sockets = ["the figure of xsk.* is receive + app"] if any(row["app"] for row in rows) else []
    notes = (NOT_TIME, *sockets, *(f"{flag}: {MEANINGS[flag][1]}" for flag in flags))
    return Table("counts", "Instructions per packet", columns, rows, notes)


def _count_row(view: RunView, case_id: str) -> dict[str, Any]:
    counts, trials = case_counts(view, case_id), view.of_case(case_id)
    return {
        "case_id": case_id,
        "figure": counts.figure,
        **{side: counts.on(side) for side in PROFILE_SIDES},
        "total": counts.on(*PROFILE_SIDES),
        "boots": _format_boots(counts),
        "spread": counts.spread if len(counts.boots) > 1 else None,
        "boots_agree": counts.boots_agree if len(counts.boots) > 1 else None,
        "mode": ", ".join(sorted({mode for one in trials if (mode := mode_obtained(one))})) or None,
        "sent_by": ", ".join(sorted({used for one in trials if (used := generator_used(one))})) or None,
        "packets": view.run.cases[case_id].get("packets"),
        "flags": sorted({flag for one in trials for flag in flag_names(one.flags)}),
        "note": ""
        if counts.boots
        else next((one.trial.reason for one in trials if one.trial.reason), why_no_figure(view, case_id)),
    }


def _format_boots(counts: CaseCounts) -> str:
    """How many boots there are and whether they agree: every function under test, or the figure within a spread."""
    if len(counts.boots) < 2:
        return str(len(counts.boots))
    return f"{len(counts.boots)} {'equal' if counts.boots_agree else f'differ, spread {counts.spread:.2f}'}"


def matrix_table(views: Sequence[RunView]) -> Table:
    """The figures of several runs side by side: a row a case, a column a kernel as it was booted."""
    names = _name_runs(views)
    case_ids = dict.fromkeys(case_id for view in views for case_id in view.run.cases)
    columns = (
        Column("case_id", "case", words=True),
        *(Column(view.run.run_id, name, INSN) for view, name in zip(views, names, strict=True)),
        Column("sent_by", "sent by", words=True, once=True),
        Column("note", "note", words=True, once=True),
    )
    rows = tuple(_matrix_row(views, names, case_id) for case_id in case_ids)
    return Table("matrix", "Instructions per packet, on the sides under test", columns, rows, (NOT_TIME,))


def _name_runs(views: Sequence[RunView]) -> list[str]:
    """By kernel, and by command line and CPU model where they differ among the runs."""
    facts = [
        (view.run.fingerprint["kernel"]["release"], *(view.run.fingerprint["guest"][key] for key in ("cmdline", "cpu")))
        for view in views
    ]
    differing = [at for at in range(3) if at == 0 or len({fact[at] for fact in facts}) > 1]
    return [" ".join(fact[at] for at in differing if fact[at]) for fact in facts]


def _matrix_row(views: Sequence[RunView], names: Sequence[str], case_id: str) -> dict[str, Any]:
    counts = {view.run.run_id: case_counts(view, case_id) for view in views if case_id in view.run.cases}
    sent_by = sorted({used for view in views for one in view.of_case(case_id) if (used := generator_used(one))})
    unequal = [
        f"{name}: boots {_format_boots(counts[view.run.run_id])}"
        for view, name in zip(views, names, strict=True)
        if view.run.run_id in counts and not counts[view.run.run_id].boots_agree
    ]
    unlike = ["not to be compared: sent differently (see --generator)"] if len(sent_by) > 1 else []
    return {
        "case_id": case_id,
        **{view.run.run_id: None for view in views},
        **{run_id: one.figure for run_id, one in counts.items()},
        "sent_by": ", ".join(sent_by),
        "note": "; ".join([*unlike, *unequal]),
    }


def count_cost_table(view: RunView) -> Table:
    """What a step costs in instructions per packet: the difference between cases that differ in it."""
    columns = (
        Column("cost", "cost of", words=True),
        Column("without", "from", words=True),
        Column("with", "to", words=True),
        Column("delta_insn", "insn/packet", CHANGE),
        Column("bound_insn", "sure to", digits_cell(2)),
        Column("bound_by", "as", words=True, once=True),
        Column("note", "note", words=True, once=True),
    )
    rows = tuple(map(_count_cost_row, count_costs(view)))
    return Table("count_costs", "Costs: instructions per packet between two cases", columns, rows)


def _count_cost_row(one: CountCost) -> dict[str, Any]:
    return {
        "cost": one.name,
        "without": one.without,
        "with": one.with_,
        "delta_insn": one.delta_insn,
        "bound_insn": one.bound.insn if one.bound else None,
        "bound_by": one.bound.reason if one.bound else None,
        "note": one.note,
    }


def window_table(view: RunView, case_id: str) -> Table:
    """Every window of a case with its raw counts, those that no figure uses included."""
    columns = (
        Column("boot", "boot"),
        Column("trial", "trial"),
        Column("slot", "slot"),
        Column("status", "status", words=True),
        Column("packets", "packets"),
        *(Column(side, side) for side in (*PROFILE_SIDES, "total")),
        Column("accepted", "accepted, packets"),
        Column("accounted", "accounted, packets"),
        Column("usable", "usable", lambda usable: "yes" if usable else "no", words=True, once=True),
        Column("flags", "flags", list_cell, words=True, once=True),
        Column("note", "note", words=True, once=True),
    )
    rows = tuple(_window_row(view, one) for one in view.of_case(case_id))
    return Table("windows", f"Windows of {case_id}, instructions", columns, rows)


def _window_row(view: RunView, one: TrialView) -> dict[str, Any]:
    profile = one.trial.profile
    return {
        **one.trial.key._asdict(),
        "slot": one.trial.slot,
        "status": one.trial.status,
        "packets": profile.packets if profile else None,
        **{side: _count_side(profile, side) for side in PROFILE_SIDES},
        "total": profile.total_insn if profile else None,
        "accepted": one.closure.accepted,
        "accounted": one.closure.accounted,
        "usable": one.usable,
        "flags": flag_names(one.flags),
        "note": "; ".join(find_trial_reasons(view, one)),
    }


def _count_side(profile: Profile | None, side: str) -> int | None:
    return sum(row.insn for row in profile.rows if row.side == side) if profile else None


def count_compare_table(comparison: Comparison) -> Table:
    """A verdict for each case, its bound, and the functions that explain it."""
    columns = (
        Column("case_id", "case", words=True),
        Column("insn_a", "A", INSN),
        Column("insn_b", "B", INSN),
        Column("delta_insn", "B - A", CHANGE),
        Column("delta_pct", "%", percent_cell),
        Column("generator_delta", "generator, B - A", CHANGE),
        Column("verdict", "verdict", words=True),
        Column("reason", "reason", words=True),
        Column("functions", "most of it", _functions_cell, words=True),
    )
    rows = tuple(_compare_row(case) for case in comparison.counted)
    title = "Verdicts (instructions per packet on the sides under test; plus is more)"
    repeating = [REP_NOTE] if any(row["rep"] for row in rows) else []
    return Table("count_compare", title, columns, rows, (*_compare_notes(comparison), *repeating))


def _compare_row(case: CountComparison) -> dict[str, Any]:
    decided = case.bound is not None
    changes = find_changes(case.a, case.b, case.a.sides)[:CULPRITS] if decided else ()
    return {
        "case_id": case.case_id,
        "boots": (len(case.a.boots), len(case.b.boots)),
        "insn_a": case.a.figure,
        "insn_b": case.b.figure,
        "delta_insn": case.insn if decided else None,
        "delta_pct": case.pct if decided else None,
        "generator_a": case.a.on("generator"),
        "generator_b": case.b.on("generator"),
        "generator_delta": case.more("generator") if decided else None,
        "bound_insn": case.bound.insn if case.bound else None,
        "bound_reason": case.bound.reason if case.bound else None,
        "functions": [(one.place.function, one.insn) for one in changes if abs(one.insn) >= UNSEEN],
        "rep": [one.place.function for one in changes if is_repeating(one.place.function)],
        "verdict": case.verdict,
        "reason": case.reason,
    }


def _functions_cell(functions: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{name}{' (rep)' if is_repeating(name) else ''} {insn:+.2f}" for name, insn in functions)


def _compare_notes(comparison: Comparison) -> Iterator[str]:
    """What is compared, the counts of verdicts, and what was left out."""
    if not comparison.dimensions:
        yield "kernel, command line and CPU model are the same in A and B"
    cases = comparison.counted
    counts = {verdict: sum(case.verdict == verdict for case in cases) for verdict in VERDICTS}
    yield ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count) or "no case in both runs"
    yield f"a bound is {MIN_BOUND:g} instructions per packet where nothing else is said below"
    yield NOT_TIME
    for name, run in (("A", comparison.a.run), ("B", comparison.b.run)):
        if run.status != "complete":
            yield f"{name} is {run.status}"
    for name, only in (("A", comparison.only_a), ("B", comparison.only_b)):
        if only:
            yield f"only in {name}: {', '.join(only)}"
    for case in cases:
        if case.bound and case.bound.insn > MIN_BOUND:
            yield f"bound of {case.case_id}: {case.bound.insn:.2f}, {case.bound.reason}"
        for name, counted in (("A", case.a), ("B", case.b)):
            for trial, flags in counted.excluded:
                where = f"{name} {case.case_id} boot {trial.key.boot} window {trial.key.trial}"
                yield f"excluded {where}: {', '.join(flags)}"

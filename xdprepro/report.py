# SPDX-License-Identifier: GPL-2.0-or-later
"""What a reader of a run or a comparison sees: values into tables, nothing printed."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from xdprepro import intervals, stats
from xdprepro.closure import find_driver
from xdprepro.comparable import EMULATED, is_emulated
from xdprepro.compare import FALSE_DISCOVERIES, VERDICTS, CaseComparison, Comparison
from xdprepro.costs import Cost, case_costs
from xdprepro.load import asked_pps, kept_share
from xdprepro.places import CLASSES
from xdprepro.sample import SIDES, say_skipped
from xdprepro.table import Column, Table, digits_cell, list_cell, percent_cell
from xdprepro.validity import MEANINGS, flag_names, mode_mismatches
from xdprepro.view import CaseRates, RunView, TrialView, case_rates, figure_name, loss_ratios

INTERVAL = f"{100 * intervals.LEVEL:g} % interval"


def run_summary(view: RunView) -> Table:
    """Which kernel, machine and lab, and how much of the plan was measured: one row for each fact."""
    run, finger = view.run, view.run.fingerprint
    usable = sum(one.usable for one in view.trials)
    facts = (
        ("run_id", run.run_id),
        ("status", run.status),
        ("suite", run.suite),
        ("lab", f"{run.lab} ({run.lab_kind})"),
        ("kernel", finger["kernel"]["release"]),
        ("cpu", f"{finger['host']['cpu_model']}, {finger['host']['cpus']} CPUs"),
        *(_guest_facts(finger) if "guest" in finger else _port_facts(finger)),
        ("design", f"{run.restarts} restarts x {run.trials_per_restart} trials, {run.design}"),
        ("trials", f"{len(view.trials)} measured, {usable} usable for verdicts"),
    )
    columns = (Column("fact", "", words=True), Column("value", "", words=True))
    notes = tuple(f"skipped {case_id}: {reason}" for case_id, reason in run.skipped.items())
    rows = tuple({"fact": key, "value": value} for key, value in facts)
    return Table("run", "Run", columns, rows, notes, short=tuple(say_skipped(run.skipped)))


def _port_facts(finger: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from ((f"{side}_driver", finger[side]["port"]["driver"]) for side in SIDES)


def _guest_facts(finger: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The machine that was emulated, how, and what the kernel was built by and told."""
    kernel, guest = finger["kernel"], finger["guest"]
    yield "kernel_spec", kernel.get("spec", "")
    yield "kernel_cmdline", kernel.get("cmdline", "")
    yield "kernel_compiler", kernel.get("compiler") or "unknown"
    yield (
        "guest",
        f"{guest['machine']} with CPU model {guest['cpu']}, QEMU {guest['qemu']}, accelerator {guest['accel']}",
    )
    yield "ports", ", ".join(f"{port} ({find_driver(finger, 'dut', port=port)})" for port in finger.get("ports", {}))


def case_table(view: RunView) -> Table:
    """The rate of each case: mean over restarts, interval, spread, and what the figure rests on."""
    columns = (
        Column("case_id", "case", words=True),
        Column("pps", "Mpps", digits_cell(3, scale=1e-6)),
        Column("ns_per_packet", f"ns/packet/core ({INTERVAL})", digits_cell(1), interval="ns_interval"),
        Column("restart_spread_pct", "spread of restarts, %", digits_cell(1)),
        Column("restarts", "restarts", once=True),
        Column("trials_used", "trials used", once=True),
        Column("trials_excluded", "trials excluded", once=True),
        Column("mode", "mode", words=True, once=True),
        Column("generator", "generator", words=True, once=True),
        Column("load", "load", words=True, once=True),
        Column("cores", "cores", lambda cores: "/".join(map(str, cores)), once=True),
        Column("flags", "flags", list_cell, words=True, once=True),
        Column("note", "note", words=True, once=True),
    )
    rows = tuple(
        _case_row(view, case_id, loss_ratio)
        for case_id, params in view.run.cases.items()
        if stats.measures_rate(params)
        for loss_ratio in loss_ratios(params)
    )
    flags = sorted({flag for row in rows for flag in row["flags"]})
    notes = [
        *([EMULATED] if is_emulated(view.run) else []),
        *_core_notes(view),
        *(f"{flag}: {MEANINGS[flag][1]}" for flag in flags),
    ]
    return Table("cases", "Cases", columns, rows, tuple(notes))


def _core_notes(view: RunView) -> Iterator[str]:
    """Which figures are of one core, although two are at work."""
    cases = {
        params["case"]
        for params in view.run.cases.values()
        if stats.measures_rate(params) and stats.has_unseen_core(params)
    }
    if cases:
        yield (
            f"{', '.join(sorted(cases))}: softirqs and the application may be on two CPUs, and one is counted: ns are "
            "the time from packet to packet, and no cost is drawn from them"
        )


def _case_row(view: RunView, case_id: str, loss_ratio: float | None) -> dict[str, Any]:
    rates = case_rates(view, case_id, loss_ratio)
    trials = view.of_case(case_id)
    estimate = rates.estimate()
    spread = 100 * estimate.sd / estimate.mean if estimate and estimate.sd is not None else None
    return {
        "case_id": figure_name(case_id, loss_ratio),
        "pps": rates.pps,
        "pps_interval": rates.pps_interval(),
        "ns_per_packet": estimate.mean if estimate else None,
        "ns_interval": estimate.interval if estimate else None,
        "restart_spread_pct": spread,
        "restarts": len(rates.boots),
        "trials_used": rates.trials,
        "trials_excluded": len(rates.excluded),
        "mode": ", ".join(sorted({mode for one in trials if (mode := mode_obtained(one))})) or None,
        "generator": ", ".join(sorted({used for one in trials if (used := generator_used(one))})) or None,
        "load": describe_load(view.run.cases[case_id]),
        "cores": tuple(sorted({one.rate.cores for one in trials if one.usable and one.rate})) or None,
        "flags": sorted({flag for one in trials for flag in flag_names(one.flags)}),
        "note": _case_note(rates, trials),
    }


def mode_obtained(one: TrialView) -> str:
    """What the kernel said, not what the case asked for."""
    ready = one.trial.dut.ready
    binds = sorted({socket["bind_mode"] for socket in ready.get("xsk", ())})
    return " ".join([ready["attach"]["attach_mode"], *binds]) if "attach" in ready else ""


def describe_load(params: Mapping[str, Any]) -> str:
    """How much was sent; who sends by itself has no load from outside."""
    loads = {"fixed": f"{params.get('rate_pps')} pps", "closed": f"{params.get('outstanding')} on the way"}
    own = {"transmit": "sends itself", "ring": "two threads"}
    load = str(params.get("load", ""))
    return own.get(stats.kind_of(params).role) or loads.get(load, load)


def generator_used(one: TrialView) -> str:
    """What the tester's agent says it sent with."""
    return str(one.trial.tester.ready.get("generator", {}).get("generator", ""))


def _case_note(rates: CaseRates, trials: tuple[TrialView, ...]) -> str:
    """Why figures are missing."""
    if not trials:
        return "no trial was measured"
    if not rates.boots:
        return next((one.trial.reason for one in trials if one.trial.reason), "all trials are excluded")
    return "one restart: no spread" if len(rates.boots) == 1 else ""


def trial_table(view: RunView, case_id: str) -> Table:
    """Every trial of a case, those that no verdict uses included."""
    columns = (
        Column("boot", "restart"),
        Column("trial", "trial"),
        Column("slot", "slot"),
        Column("status", "status", words=True),
        Column("pps", "Mpps", digits_cell(3, scale=1e-6)),
        Column("ns_per_packet", "ns/packet/core", digits_cell(1)),
        Column("accepted", "accepted, packets"),
        Column("accounted", "accounted, packets"),
        Column("usable", "usable", lambda usable: "yes" if usable else "no", words=True, once=True),
        Column("flags", "flags", list_cell, words=True, once=True),
        Column("note", "note", words=True, once=True),
    )
    rows = tuple(
        {
            **one.trial.key._asdict(),
            "slot": one.trial.slot,
            "status": one.trial.status,
            "pps": one.rate.pps if one.rate else None,
            "ns_per_packet": one.rate.ns_per_packet if one.rate else None,
            "accepted": one.closure.accepted,
            "accounted": one.closure.accounted,
            "usable": one.usable,
            "flags": flag_names(one.flags),
            "note": "; ".join(find_trial_reasons(view, one)),
        }
        for one in view.of_case(case_id)
    )
    return Table("trials", f"Trials of {case_id}", columns, rows)


def find_trial_reasons(view: RunView, one: TrialView) -> Iterator[str]:
    """Why a trial is not used."""
    if one.trial.status != "ok":
        yield one.trial.reason
        return
    yield from one.closure.reasons
    yield from mode_mismatches(one.trial, view.run.cases[one.trial.key.case_id])
    if "pacing_off" in flag_names(one.flags):
        yield f"the generator kept {100 * kept_share(one.trial):.1f} % of {asked_pps(one.trial)} packets/s"


def closure_table(one: TrialView) -> Table:
    """Where the packets of a trial went: from the generator to the last place of each."""
    closure = one.closure
    rows = [
        {"place": "handed over by the generator", "packets": closure.generated},
        {"place": "refused by the tester's port", "packets": closure.refused},
        {"place": "accepted", "packets": closure.accepted},
        *([{"place": "copied by the program", "packets": closure.copied}] if closure.copied else []),
        *({"place": f"  {name}", "packets": count} for name, count in closure.terms),
        {"place": "accounted for", "packets": closure.accounted},
        {"place": "missing", "packets": closure.accepted - closure.accounted},
    ]
    doubts = [MEANINGS[flag][1] for flag in ("closure_generic", "closure_unchecked") if flag in flag_names(one.flags)]
    hints = [f"{name}: the driver counted {events} events, not packets" for name, events in closure.hints]
    classes = [f"{name}: {CLASSES[name]}" for name, _ in closure.terms if name in CLASSES]
    columns = (Column("place", "place", words=True), Column("packets", "packets"))
    key = one.trial.key
    title = f"Packets of restart {key.boot}, trial {key.trial}: {'open' if closure.open else 'closed'}"
    return Table("closure", title, columns, tuple(rows), (*closure.reasons, *doubts, *hints, *classes))


def cost_table(view: RunView) -> Table:
    """The costs of the mailing lists: the difference in ns per packet between cases that differ in one step."""
    columns = (
        Column("cost", "cost of", words=True),
        Column("without", "from", words=True),
        Column("with", "to", words=True),
        Column("delta_ns", f"ns/packet ({INTERVAL})", digits_cell(1, sign=True), interval="ns_interval"),
        Column("restarts", "restarts", once=True),
        Column("note", "note", words=True, once=True),
    )
    return Table("costs", "Costs: ns per packet between two cases", columns, tuple(map(_cost_row, case_costs(view))))


def _cost_row(cost: Cost) -> dict[str, Any]:
    return {
        "cost": cost.name,
        "without": cost.without,
        "with": cost.with_,
        "delta_ns": cost.delta_ns,
        "ns_interval": cost.interval_ns,
        "restarts": cost.restarts,
        "note": cost.note,
    }


def compare_table(comparison: Comparison) -> Table:
    """A verdict for each case, with all that it rests on."""
    level = f"{100 * comparison.level:g} % interval"
    columns = (
        Column("case_id", "case", words=True),
        Column("restarts", "restarts A:B", lambda pair: f"{pair[0]}:{pair[1]}", once=True),
        Column("pps_a", "A, Mpps", digits_cell(3, scale=1e-6)),
        Column("pps_b", "B, Mpps", digits_cell(3, scale=1e-6)),
        Column("ns_a", "A, ns", digits_cell(1)),
        Column("ns_b", "B, ns", digits_cell(1)),
        Column("delta_ns", f"B - A, ns ({level})", digits_cell(1, sign=True), interval="delta_ns_interval"),
        Column("delta_pct", f"B - A, % ({level})", percent_cell, interval="delta_pct_interval"),
        Column("mde_pct", "detectable, %", digits_cell(1)),
        Column("verdict", "verdict", words=True),
        Column("reason", "reason", words=True),
    )
    rows = tuple(_compare_row(case, comparison.level) for case in comparison.timed)
    return Table(
        "compare",
        "Verdicts (A:B restarts, ns per packet and core; plus is slower)",
        columns,
        rows,
        tuple(_compare_notes(comparison)),
    )


def _compare_row(case: CaseComparison, level: float) -> dict[str, Any]:
    a, b = case.a.estimate(level), case.b.estimate(level)
    ns, pct = case.delta_ns, case.delta_pct
    return {
        "case_id": case.case_id,
        "restarts": (len(case.a.boots), len(case.b.boots)),
        "pps_a": case.a.pps,
        "pps_a_interval": case.a.pps_interval(level),
        "pps_b": case.b.pps,
        "pps_b_interval": case.b.pps_interval(level),
        "ns_a": a.mean if a else None,
        "ns_a_interval": a.interval if a else None,
        "ns_b": b.mean if b else None,
        "ns_b_interval": b.interval if b else None,
        "delta_ns": ns.delta if ns else None,
        "delta_ns_interval": (ns.low, ns.high) if ns else None,
        "delta_pct": pct.delta if pct else None,
        "delta_pct_interval": (pct.low, pct.high) if pct else None,
        "p": ns.p if ns else None,
        "p_adjusted": case.p_adjusted,
        "mde_ns": case.mde_ns,
        "mde_pct": case.mde_pct,
        "more_restarts": case.more_restarts,
        "excluded_a": len(case.a.excluded),
        "excluded_b": len(case.b.excluded),
        "verdict": case.verdict,
        "reason": case.reason,
    }


def _doubts(view: RunView) -> Iterator[str]:
    """How many of the trials that count have a flag which makes them poor witnesses."""
    usable = [one for one in view.trials if one.usable]
    for flag, count in sorted(Counter(flag for one in usable for flag in flag_names(one.flags)).items()):
        yield f"{count} of {len(usable)} trials {flag}: {MEANINGS[flag][1]}"


def _compare_notes(comparison: Comparison) -> Iterator[str]:
    """The design, the counts, and what was left out."""
    counts = ", ".join(f"{comparison.count(verdict)} {verdict}" for verdict in VERDICTS if comparison.count(verdict))
    yield counts or "no case in both runs"
    yield f"improved:regressed {comparison.count('IMPROVED')}:{comparison.count('REGRESSED')}"
    yield (
        f"design {comparison.design}, margin {comparison.margin_pct:g} %, intervals {100 * comparison.level:g} %, "
        f"false discoveries {100 * FALSE_DISCOVERIES:g} % over the cases (Benjamini-Hochberg), "
        "percent from the ratio of geometric means"
    )
    for name, run in (("A", comparison.a.run), ("B", comparison.b.run)):
        if run.status != "complete":
            yield f"{name} is {run.status}: {len(run.boots)} of {run.restarts} restarts were begun"
    if comparison.passes:
        yield f"passes that measure no rate are not compared: {', '.join(comparison.passes)}"
    for name, only in (("A", comparison.only_a), ("B", comparison.only_b)):
        if only:
            yield f"only in {name}: {', '.join(only)}"
    for name, view in (("A", comparison.a), ("B", comparison.b)):
        yield from (f"{name}: {doubt}" for doubt in _doubts(view))
    for case in comparison.timed:
        for name, rates in (("A", case.a), ("B", case.b)):
            for trial, flags in rates.excluded:
                where = f"{name} {case.case_id} restart {trial.key.boot} trial {trial.key.trial}"
                yield f"excluded {where}: {', '.join(flags)}"

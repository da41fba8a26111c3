# SPDX-License-Identifier: GPL-2.0-or-later
"""What people and programs read: tables of runs, costs and comparisons."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from conftest import ROOT
from made_counts import (
    FIGURE,
    INSN,
    WINDOWS,
    case_id,
    make_boot,
    make_counted_run,
    make_guest_fingerprint,
    make_profile,
    make_window,
)
from made_trials import OUTSIDE, make_case_run, make_fingerprint, make_run, make_trial

from xdprepro import differences, exact_report, report
from xdprepro.cases import Case
from xdprepro.compare import VERDICTS, Comparison, compare
from xdprepro.costs import COSTS, COUNTED_COSTS, case_costs
from xdprepro.exact import case_counts
from xdprepro.explain import explain_table, profile_table
from xdprepro.kinds import CASE_KINDS
from xdprepro.sample import PROFILE_SIDES, Run, Stream
from xdprepro.table import Column, Table, as_json, as_text, say_once
from xdprepro.validity import MEANINGS
from xdprepro.view import RunView, view_run

DROP = Case("xdp.drop.no-touch")
READ = Case("xdp.drop.read-data")
TX = Case("xdp.tx.swap-macs")
XSK = Case("xsk.rxdrop")

QUIET = (100.0, 100.1, 99.9, 100.05, 99.95)


def row(table: Table, index: int = 0) -> dict[str, Any]:
    return dict(table.rows[index])


def text_row(table: Table, index: int = 0) -> dict[str, str]:
    return dict(zip((column.key for column in table.columns), as_text(table)[index], strict=True))


def broken_run() -> Run:
    """Two good restarts of one case; one restart, no usable trial and no trial at all of others."""
    lost = {"generator.cpu1.packets": 4, "netdev.tx_dropped": 3}
    trials = [make_trial(DROP, boot=boot, ns=100.0 + boot) for boot in range(2)]
    trials += [make_trial(READ, boot=0), make_trial(TX, boot=0, tester_end=lost)]
    trials += [replace(make_trial(XSK, boot=0, status="failed"), dut=Stream(error="it went"))]
    return make_run(trials, [DROP, READ, TX, XSK, Case("xdp.pass.no-touch")], skipped={"xdp.x": "no port"})


def comparisons() -> list[Comparison]:
    cases = [DROP, READ]
    trials = [make_trial(case, boot=boot, ns=ns) for case in cases for boot, ns in enumerate(QUIET)]
    a = make_run(trials, cases)
    b = replace(broken_run(), run_id="b", fingerprint=make_fingerprint(cpu__governor="powersave"))
    return [compare(view_run(a), view_run(b), allow_confounded=allowed) for allowed in (False, True)]


def counted_view(costs: Mapping[tuple[str, str], float] = INSN, **changes: Any) -> RunView:
    """A counted run: one case whole, one with a window that lost a packet, one without any trial."""
    lost = make_window(READ, make_profile(WINDOWS[0]), tester_end={"generator.cpu1.packets": 1})
    trials = [*make_boot(DROP, costs), *make_boot(DROP, costs, boot=1), lost]
    return view_run(make_counted_run(trials, [DROP, READ, TX], **changes))


def counted_comparison(**options: Any) -> Comparison:
    configs = (
        "CONFIG_NET=y\n# CONFIG_KASAN is not set\nCONFIG_SND=y\n",
        "CONFIG_NET=y\nCONFIG_KASAN=y\nCONFIG_SND=m\nCONFIG_NEW=y\n",
    )
    kernel = {"kernel__release": "6.13.0", "kernel__image_sha256": "i2", "kernel__config_sha256": "c2"}
    a, b = (
        counted_view(costs, run_id=run_id, fingerprint=fingerprint, documents={"kernel_config": config})
        for run_id, costs, fingerprint, config in (
            ("a", INSN, make_guest_fingerprint(), configs[0]),
            ("b", {**INSN, ("new_check", "receive"): 2}, make_guest_fingerprint("veth", **kernel), configs[1]),
        )
    )
    return compare(a, b, **options)


def counted_tables() -> list[Table]:
    view = counted_view()
    counts = case_counts(view, case_id(DROP))
    tables = [report.run_summary(view), exact_report.count_table(view), exact_report.count_cost_table(view)]
    tables += [exact_report.window_table(view, case_id(case)) for case in (DROP, READ, TX)]
    tables += [explain_table(counts, counts, sides=PROFILE_SIDES, top=3), profile_table(counts, sides=["rest"], top=3)]
    for allowed in (False, True):
        comparison = counted_comparison(allow_confounded=allowed)
        tables += [differences.sides_table(comparison), differences.dimension_table(comparison)]
        tables += [differences.config_table(comparison, everything=one) for one in (False, True)]
        tables += [differences.mismatch_table(comparison), exact_report.count_compare_table(comparison)]
    return tables


def every_table() -> list[Table]:
    view = view_run(broken_run())
    tables = [report.run_summary(view), report.case_table(view), report.cost_table(view)]
    tables += [report.trial_table(view, case_id) for case_id in view.run.cases]
    tables += [report.closure_table(one) for one in view.trials]
    for comparison in comparisons():
        tables += [differences.sides_table(comparison), differences.mismatch_table(comparison)]
        tables += [report.compare_table(comparison)]
    return tables + counted_tables()


# All tables


def test_every_table_is_json_without_nan() -> None:
    for table in every_table():
        json.dumps(as_json(table), allow_nan=False)


def test_every_table_has_a_cell_for_each_column() -> None:
    for table in every_table():
        assert {len(cells) for cells in as_text(table)} <= {len(table.columns)}
        assert all(isinstance(cell, str) for cells in as_text(table) for cell in cells)


def test_rows_of_a_table_have_the_same_keys() -> None:
    for table in every_table():
        assert len({tuple(one) for one in table.rows}) <= 1


def test_what_is_missing_is_a_dash_and_null_with_a_reason() -> None:
    table = report.case_table(view_run(broken_run()))
    for index, reason in ((2, "all trials are excluded"), (3, "it failed"), (4, "no trial was measured")):
        assert (text_row(table, index)["pps"], text_row(table, index)["ns_per_packet"]) == ("-", "-")
        assert as_json(table)["rows"][index]["pps"] is None
        assert row(table, index)["note"] == reason


def test_an_infinite_time_is_a_dash_and_null() -> None:
    trial = make_trial(DROP)
    still = tuple(replace(sample, counters={}) for sample in trial.dut.samples)
    run = make_run([replace(trial, dut=replace(trial.dut, samples=still))], [DROP])
    table = report.trial_table(view_run(run), DROP.id)
    assert text_row(table)["ns_per_packet"] == "-"
    assert as_json(table)["rows"][0]["ns_per_packet"] is None
    assert as_json(table)["rows"][0]["flags"] == ["no_packets", "stalled", "load_gap"]


KEYS: dict[str, Sequence[str]] = {
    "runs": ("side", "run_id", "plan_id", "kernel", "cmdline", "cpu", "suite", "lab", "status", "restarts"),
    "run": ("fact", "value"),
    "cases": (
        *(
            "case_id",
            "pps",
            "pps_interval",
            "ns_per_packet",
            "ns_interval",
            "restart_spread_pct",
            "restarts",
            "trials_used",
        ),
        *("trials_excluded", "mode", "generator", "load", "cores", "flags", "note"),
    ),
    "searches": (
        *("case_id", "restart", "loss_ratio", "lower_pps", "upper_pps", "width_pct", "pps", "steps", "usable", "note"),
    ),
    "trials": (
        *("case_id", "boot", "trial", "slot", "status", "pps", "ns_per_packet", "accepted", "accounted"),
        *("usable", "flags", "note"),
    ),
    "closure": ("place", "packets"),
    "costs": ("cost", "without", "with", "delta_ns", "ns_interval", "restarts", "note"),
    "differences": ("key", "a", "b", "serious", "case_id"),
    "compare": (
        *(
            "case_id",
            "restarts",
            "pps_a",
            "pps_a_interval",
            "pps_b",
            "pps_b_interval",
            "ns_a",
            "ns_a_interval",
            "ns_b",
            "ns_b_interval",
        ),
        *("delta_ns", "delta_ns_interval", "delta_pct", "delta_pct_interval", "p", "p_adjusted"),
        *("mde_ns", "mde_pct", "more_restarts", "excluded_a", "excluded_b", "verdict", "reason"),
    ),
    "counts": (
        *("case_id", "figure", "receive", "app", "generator", "rest", "total", "boots", "spread", "boots_agree"),
        *("mode", "sent_by", "packets", "flags", "note"),
    ),
    "count_costs": ("cost", "without", "with", "delta_insn", "bound_insn", "bound_by", "note"),
    "windows": (
        *("case_id", "boot", "trial", "slot", "status", "packets", "receive", "app", "generator", "rest", "total"),
        *("accepted", "accounted", "usable", "flags", "note"),
    ),
    "dimensions": ("dimension", "a", "b", "confounds"),
    "config": ("symbol", "a", "b", "chosen", "about"),
    "count_compare": (
        *("case_id", "boots", "insn_a", "insn_b", "delta_insn", "delta_pct", "generator_a", "generator_b"),
        *("generator_delta", "bound_insn", "bound_reason", "functions", "rep", "verdict", "reason"),
    ),
    "explain": (
        *("kind", "function", "side", "insn_a", "insn_b", "delta_insn", "loads_a", "loads_b", "delta_loads"),
        *("stores_a", "stores_b", "delta_stores", "lines_a", "lines_b", "delta_lines", "marks"),
    ),
    "profile": ("kind", "function", "side", "insn", "loads", "stores", "lines", "share_pct", "marks"),
}


def test_json_keys_are_those_that_scripts_rely_on() -> None:
    for table in every_table():
        assert {tuple(one) for one in table.rows} <= {tuple(KEYS[table.name])}


def documented(pattern: str) -> list[Any]:
    """What the groups match in each line of the documentation."""
    return re.findall(pattern, (ROOT / "docs/results.md").read_text(), re.MULTILINE)


def test_keys_are_documented() -> None:
    rows = dict(documented(r"^\| `(\w+)` \| (`case_id`.*|`\w+`, .*) \|$"))
    assert rows.keys() == KEYS.keys()
    for name, cell in rows.items():
        assert tuple(re.findall(r"`(\w+)`", cell)) == tuple(KEYS[name])


def test_flags_and_verdicts_are_documented() -> None:
    flags = {name: (bool(mark.strip()), about) for name, mark, about in documented(r"^\| `(\w+)` \|( \*)? \| (.*) \|$")}
    assert {name: (excluded, about.removesuffix(" (below)")) for name, (excluded, about) in flags.items()} == MEANINGS
    assert {name for name, _ in documented(r"^\| `([A-Z]+)` \| (.*) \|$")} == set(VERDICTS)


# A run


def test_summary_names_kernel_machine_and_lab() -> None:
    table = report.run_summary(view_run(broken_run()))
    facts = {one["fact"]: one["value"] for one in table.rows}
    assert facts["kernel"] == "6.12.1"
    assert facts["lab"] == "veth (veth)"
    assert facts["trials"] == "5 measured, 3 usable for verdicts"
    assert table.notes == ("skipped xdp.x: no port",)


def test_cases_skipped_for_one_reason_are_one_line_for_people() -> None:
    skipped = {"a": "no port", "b": "no zero copy", "c": "no port"}
    table = report.run_summary(view_run(make_run([], [], skipped=skipped)))
    assert as_json(table)["notes"] == ["skipped a: no port", "skipped b: no zero copy", "skipped c: no port"]
    assert say_once(table).notes == ("skipped 2 cases: no port: a, c", "skipped b: no zero copy")


def test_a_figure_of_two_cpus_says_so() -> None:
    cases = [DROP, Case("udp.rxdrop"), Case("pkt-v3.rxdrop"), Case("pkt-v3.txonly"), Case("ring.head-tail")]
    table = report.case_table(view_run(make_run([make_trial(case) for case in cases], cases)))
    (said,) = (line for line in table.notes if "softirqs" in line)
    assert said.startswith("pkt-v3.rxdrop, udp.rxdrop: ")
    assert not any("softirqs" in line for line in report.case_table(view_run(make_case_run(DROP, [9.0]))).notes)


def test_case_table_has_the_figures_in_si_and_in_words() -> None:
    table = report.case_table(view_run(make_case_run(DROP, [90.0, 110.0])))
    found, text = row(table), text_row(table)
    assert found["ns_per_packet"] == pytest.approx(100.0)
    assert found["pps"] == pytest.approx(10e6)
    assert found["restart_spread_pct"] == pytest.approx(14.14, abs=0.01)
    assert (text["pps"], text["restart_spread_pct"]) == ("10.000", "14.1")
    assert text["ns_per_packet"] == "100.0 (-536.6 .. 736.6)"
    assert (found["mode"], found["generator"], text["cores"]) == ("native", "live-frames", "1")


def test_the_interval_of_pps_is_open_where_noise_would_allow_no_time_at_all() -> None:
    quiet, noisy = (row(report.case_table(view_run(make_case_run(DROP, ns)))) for ns in (QUIET, [20.0, 180.0]))
    assert quiet["pps_interval"][0] < quiet["pps"] < quiet["pps_interval"][1]
    assert noisy["pps_interval"] is None


def test_case_table_shows_what_a_socket_got() -> None:
    assert row(report.case_table(view_run(make_case_run(XSK, QUIET))))["mode"] == "native copy"


def test_one_restart_has_no_spread_and_says_so() -> None:
    table = report.case_table(view_run(make_case_run(DROP, [100.0])))
    assert (text_row(table)["ns_per_packet"], text_row(table)["restart_spread_pct"]) == ("100.0", "-")
    assert row(table)["note"] == "one restart: no spread"


def test_case_table_explains_its_flags() -> None:
    table = report.case_table(view_run(broken_run()))
    assert row(table, 2)["flags"] == ["loss_open"]
    assert row(table, 2)["trials_excluded"] == 1
    assert "loss_open: packets are missing, counted twice or cannot be counted" in table.notes


def test_trial_table_says_why_a_trial_is_not_used() -> None:
    view = view_run(broken_run())
    lost = row(report.trial_table(view, TX.id))
    assert (lost["usable"], lost["accepted"] - lost["accounted"]) == (False, 1)
    assert lost["note"].endswith("1 missing")
    assert row(report.trial_table(view, XSK.id))["note"] == "it failed"


def test_closure_table_adds_up() -> None:
    trial = make_trial(TX, returned_share=0.5, tester_end={"generator.cpu1.packets": 9, "netdev.tx_dropped": 7})
    view = view_run(make_run([trial], [TX]))
    table = report.closure_table(view.trials[0])
    total = 10_000_000 + OUTSIDE
    assert [(one["place"], one["packets"]) for one in table.rows] == [
        ("handed over by the generator", total + 9),
        ("refused by the tester's port", 7),
        ("accepted", total + 2),
        ("  returned", total // 2),
        ("  not_sent", total - total // 2),
        ("accounted for", total),
        ("missing", 2),
    ]
    assert table.title.endswith(": open")
    assert table.notes[0] == f"receive: {total + 2} in, {total} counted, 2 missing"
    assert [note.partition(":")[0] for note in table.notes[1:]] == ["returned", "not_sent"]


# Costs


def test_costs_are_differences_of_known_cases() -> None:
    assert {case for _, *pair in (*COSTS, *COUNTED_COSTS) for case in pair} <= CASE_KINDS.keys()


def run_of(ns: dict[Case, Sequence[float]]) -> Run:
    trials = [make_trial(case, boot=boot, ns=one) for case, values in ns.items() for boot, one in enumerate(values)]
    return make_run(trials, list(ns))


def test_a_cost_is_paired_by_restart() -> None:
    # The restarts differ by far more than the two cases, and the pairs agree.
    run = run_of({DROP: [100.0, 150.0, 200.0], READ: [103.0, 153.1, 202.9]})
    [cost] = case_costs(view_run(run))
    assert (cost.name, cost.without, cost.with_) == ("read the Ethernet header", DROP.id, READ.id)
    assert cost.delta_ns == pytest.approx(3.0, abs=1e-3)
    assert cost.interval_ns == pytest.approx((3 - 0.573, 3 + 0.573), abs=1e-3)


def test_a_cost_uses_only_restarts_with_both_cases() -> None:
    run = run_of({DROP: [100.0, 100.0, 100.0], READ: [105.0, 107.0]})
    [cost] = case_costs(view_run(run))
    assert cost.restarts == 2
    assert cost.delta_ns == pytest.approx(6.0, abs=1e-4)


def test_a_cost_from_one_restart_has_no_interval() -> None:
    [cost] = case_costs(view_run(run_of({DROP: [100.0], READ: [105.0]})))
    assert cost.delta_ns == pytest.approx(5.0, abs=1e-4)
    assert (cost.interval_ns, cost.note) == (None, "one restart: no interval")


def test_a_cost_without_a_common_restart_says_so() -> None:
    trials = [make_trial(DROP, boot=0), make_trial(READ, boot=1)]
    table = report.cost_table(view_run(make_run(trials, [DROP, READ])))
    assert text_row(table)["delta_ns"] == "-"
    assert row(table)["note"] == "no restart has usable trials of both"


def test_cases_with_other_parameters_have_no_cost() -> None:
    long = replace(READ, frame_len=1514)
    assert case_costs(view_run(run_of({DROP: QUIET, long: QUIET}))) == ()


def test_a_socket_has_no_cost_beside_a_single_cpu() -> None:
    assert case_costs(view_run(run_of({DROP: QUIET, XSK: QUIET}))) == ()


# What all rows agree on


def test_what_all_rows_agree_on_is_said_once() -> None:
    columns = (
        Column("name", "case", words=True),
        Column("n", "restarts", once=True),
        Column("mode", "mode", words=True, once=True),
        Column("note", "note", words=True, once=True),
        Column("same", "same"),
    )
    rows = ({"name": "a", "n": 5, "mode": "native", "note": "", "same": 1}, {"name": "b", "n": 5, "mode": "skb"})
    table = Table("t", "T", columns, (rows[0], {**rows[1], "note": "", "same": 1}), ("a note",))
    said = say_once(table)
    assert [column.key for column in said.columns] == ["name", "mode", "same"]
    assert said.notes == ("in every row: restarts 5", "a note")
    assert as_text(said) == [["a", "native", "1"], ["b", "skb", "1"]]


# A comparison


def compared(b: Sequence[float], **options: Any) -> Comparison:
    runs = make_case_run(DROP, QUIET), make_case_run(DROP, b, run_id="b")
    return compare(*map(view_run, runs), **options)


def test_compare_table_shows_difference_interval_and_verdict() -> None:
    table = report.compare_table(compared([value * 1.03 for value in QUIET], level=0.999))
    found, text = row(table), text_row(table)
    assert (text["delta_ns"], text["delta_pct"]) == ("+3.0 (+2.7 .. +3.3)", "+3.00 (+2.74 .. +3.26)")
    assert text["restarts"] == "5:5"
    assert found["delta_ns_interval"][0] < found["delta_ns"] < found["delta_ns_interval"][1]
    assert (found["verdict"], found["reason"]) == ("REGRESSED", "beyond 0.5 %")
    assert "B - A, ns (99.9 % interval)" in [column.heading for column in table.columns]


def test_compare_notes_count_the_verdicts_and_name_the_design() -> None:
    notes = report.compare_table(compared(QUIET, margin_pct=2)).notes
    assert notes[:2] == ("1 EQUIVALENT", "improved:regressed 0:0")
    assert notes[2].startswith("design interleaved, margin 2 %, intervals 99 %")


@pytest.mark.parametrize(
    "note",
    [
        "only in B: xdp.tx.swap-macs.native.60B, xsk.rxdrop.native.copy.60B, xdp.pass.no-touch.native.60B",
        "excluded B xdp.drop.read-data.native.60B restart 0 trial 0: loss_open",
    ],
)
def test_compare_notes_name_what_was_left_out(note: str) -> None:
    bad = make_trial(READ, boot=0, tester_end={"generator.cpu1.packets": 1})
    b = broken_run()
    b = replace(b, run_id="b", trials=(*b.trials[:2], bad, *b.trials[3:]))
    cases = [DROP, READ]
    a = make_run([make_trial(case, boot=boot) for case in cases for boot in range(2)], cases)
    assert note in report.compare_table(compare(view_run(a), view_run(b))).notes


def test_compare_notes_say_when_a_run_is_not_complete() -> None:
    b = make_case_run(DROP, QUIET, run_id="b", status="partial", restarts=9)
    notes = report.compare_table(compare(view_run(make_case_run(DROP, QUIET)), view_run(b))).notes
    assert notes[3:] == ("B is partial: 5 of 9 restarts were begun",)


def test_without_a_common_case_the_table_says_so() -> None:
    comparison = compare(view_run(make_case_run(DROP, QUIET)), view_run(make_case_run(TX, QUIET, run_id="b")))
    assert report.compare_table(comparison).notes[0] == "no case in both runs"


@pytest.mark.parametrize(("column", "cell"), [("a", "performance"), ("b", "powersave"), ("serious", "no")])
def test_mismatch_table_shows_both_sides(column: str, cell: str) -> None:
    assert text_row(differences.mismatch_table(comparisons()[0]))[column] == cell


def test_a_long_value_is_cut_in_text_and_whole_in_json() -> None:
    long = 20 * "very long "
    b = make_case_run(DROP, QUIET, run_id="b", fingerprint=make_fingerprint(kernel__cmdline=long))
    table = differences.mismatch_table(compare(view_run(make_case_run(DROP, QUIET)), view_run(b)))
    assert len(text_row(table)["b"]) == 60
    assert as_json(table)["rows"][0]["b"] == long


@pytest.mark.parametrize("make", [report.run_summary, report.case_table, report.cost_table])
def test_a_run_without_any_trial_has_tables(make: Callable[..., Table]) -> None:
    as_text(make(view_run(make_run([], [DROP, READ]))))


def test_compare_notes_count_the_poor_witnesses() -> None:
    b = make_case_run(DROP, QUIET, run_id="b")
    shared = make_trial(DROP, boot=0, dut_end={"proc_stat.cpu0.user": 50, "proc_stat.cpu0.softirq": 50})
    b = replace(b, trials=(shared, *b.trials[1:]))
    notes = report.compare_table(compare(view_run(make_case_run(DROP, QUIET)), view_run(b))).notes
    [doubt] = [one for one in notes if "cpu_shared" in one]
    assert doubt.startswith("B: 1 of 5 trials cpu_shared: ")


# Counted runs


def test_summary_names_the_guest() -> None:
    facts = {one["fact"]: one["value"] for one in report.run_summary(counted_view()).rows}
    assert facts["guest"] == "q35 with CPU model max, QEMU 10.0.2, accelerator count"
    assert facts["ports"] == "veth (veth)"
    assert facts["kernel_compiler"] == "gcc 12"


def test_count_table_has_sides_boots_and_reasons() -> None:
    table = exact_report.count_table(counted_view())
    text = text_row(table)
    assert [text[side] for side in (*PROFILE_SIDES, "total", "boots")] == [
        f"{FIGURE}.00",
        "0.00",
        "128.00",
        "1.00",
        f"{FIGURE + 129}.00",
        "2 equal",
    ]
    assert (text_row(table, 1)["receive"], row(table, 1)["note"]) == ("-", "all 1 trials excluded: loss_open")
    assert row(table, 2)["note"] == "no trial"
    assert "loss_open: packets are missing, counted twice or cannot be counted" in table.notes


def test_count_table_shows_how_far_boots_are_apart() -> None:
    trials = [*make_boot(DROP), *make_boot(DROP, {**INSN, ("new_check", "receive"): 0.25}, boot=1)]
    table = exact_report.count_table(view_run(make_counted_run(trials, [DROP])))
    assert (row(table)["boots_agree"], text_row(table)["boots"]) == (False, "2 differ, spread 0.25")


def test_count_compare_names_the_difference_its_bound_and_the_functions() -> None:
    table = exact_report.count_compare_table(counted_comparison(allow_confounded=True))
    text = text_row(table)
    assert (text["delta_insn"], text["delta_pct"], text["functions"]) == ("+2.00", "+0.27", "new_check +2.00")
    assert (text["verdict"], text["reason"]) == ("REGRESSED", "beyond 0.50")
    assert row(table, 1)["verdict"] == "EXCLUDED"
    assert "1 REGRESSED, 2 EXCLUDED" in table.notes
    assert f"excluded A {case_id(READ)} boot 0 window 0: loss_open" in table.notes


def test_an_incomparable_count_has_figures_and_no_difference() -> None:
    found = row(exact_report.count_compare_table(counted_comparison()))
    assert (found["insn_a"], found["insn_b"], found["delta_insn"], found["functions"]) == (FIGURE, FIGURE + 2, None, [])
    assert found["reason"] == "the runs differ in more than the kernel"


def test_config_table_shows_what_concerns_a_packet_and_json_has_all() -> None:
    comparison = counted_comparison()
    shown = differences.config_table(comparison, everything=False)
    assert [(one["symbol"], one["a"], one["b"], one["about"]) for one in shown.rows] == [("KASAN", "n", "y", "checks")]
    assert shown.title == "Kernel configuration: 2 symbols are set otherwise, 1 come with the version"
    everything = differences.config_table(comparison, everything=True)
    assert [(one["symbol"], one["chosen"]) for one in everything.rows] == [
        ("KASAN", True),
        ("SND", True),
        ("NEW", False),
    ]


@pytest.mark.parametrize(
    ("symbol", "about"),
    [
        ("MITIGATION_RETPOLINE", "mitigations"),
        ("PAGE_TABLE_ISOLATION", "mitigations"),
        ("CPU_UNRET_ENTRY", "mitigations"),
        ("BPF_JIT_ALWAYS_ON", "BPF and XDP"),
        ("XDP_SOCKETS", "BPF and XDP"),
        ("NET_RX_BUSY_POLL", "networking"),
        ("PAGE_POOL_STATS", "networking"),
        ("NET_VENDOR_INTEL", ""),
        ("INIT_ON_ALLOC_DEFAULT_ON", "hardening"),
        ("PREEMPT_VOLUNTARY", "scheduling and time"),
        ("HZ_1000", "scheduling and time"),
        ("CC_OPTIMIZE_FOR_SIZE", "compiling"),
        ("SND_HDA_INTEL", ""),
    ],
)
def test_symbols_are_sorted_by_what_they_are_about(symbol: str, about: str) -> None:
    a, b = (
        counted_view(run_id=run_id, documents={"kernel_config": f"CONFIG_{symbol}={value}\n"})
        for run_id, value in (("a", "y"), ("b", "m"))
    )
    [found] = differences.config_table(compare(a, b), everything=True).rows
    assert (found["symbol"], found["about"]) == (symbol, about)

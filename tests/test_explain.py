# SPDX-License-Identifier: GPL-2.0-or-later
"""Which functions differ: the command, its tables, and what it says where it cannot tell."""

import io
import json
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from made_counts import FIGURE, INSN, add_memory, case_id, make_boot, make_counted_run, make_guest_fingerprint
from made_trials import make_case_run

from xdprepro import archive, bench
from xdprepro.cases import Case
from xdprepro.cli import main
from xdprepro.errors import FAILED, USAGE
from xdprepro.exact import Place, case_counts
from xdprepro.explain import explain_table, find_changes, format_folded, is_repeating, profile_table
from xdprepro.sample import PROFILE_SIDES, Run
from xdprepro.table import Row, as_text
from xdprepro.view import view_run

DROP = Case("xdp.drop.no-touch")
READ = Case("xdp.drop.read-data")
XSK = Case("xsk.rxdrop", bind_mode="copy", wakeup="poll", xsk_batch=64, xsk_ring_rx=2048)

Costs = Mapping[tuple[str, str], float]

# Split otherwise by the compiler, one function gone and one new, one dearer by 7, and a generator that differs.
AFTER: Costs = {
    ("veth_poll", "receive"): 107,
    ("veth_xdp_rcv_one", "receive"): 83,
    ("bpf:xdp_drop_no_tou (dut)", "receive"): 41,
    ("page_pool_put", "receive"): 72.5,
    ("xdp_do_redirect", "generator"): 60,
    ("bpf:generate_live (tester)", "generator"): 70,
    ("tick_sched_timer", "rest"): 1,
}


def counts(costs: Costs = INSN, case: Case = DROP, **options: Any) -> Any:
    return case_counts(view_run(make_counted_run(make_boot(case, costs, **options), [case])), case_id(case))


def explain_rows(*, sides: Sequence[str] = ("receive",), top: int = 25) -> tuple[Row, ...]:
    return explain_table(counts(), counts(AFTER), sides=sides, top=top).rows


def by_name(rows: Sequence[Row]) -> dict[str, Row]:
    return {row["function"]: row for row in rows}


# Functions


def test_the_largest_change_comes_first() -> None:
    changes = find_changes(counts(), counts(AFTER), ["receive"])
    assert [(one.place.function, one.insn, one.mark) for one in changes] == [
        ("clear_page_erms", -512, "GONE"),
        ("page_pool_put", 72.5, "NEW"),
        ("veth_poll", 7, ""),
        ("bpf:xdp_drop_no_tou (dut)", 0, ""),
        ("veth_xdp_rcv_one", 0, ""),
    ]


def test_changes_of_all_functions_are_the_difference_of_the_figures() -> None:
    a, b = counts(), counts(AFTER)
    assert sum(one.insn for one in find_changes(a, b, a.sides)) == b.figure - a.figure


def test_a_function_that_no_packet_meets_is_new_when_packets_do() -> None:
    before = {**INSN, ("page_pool_put", "receive"): 0.004}
    [change] = [one for one in find_changes(counts(before), counts(AFTER), ["receive"]) if one.mark == "NEW"]
    assert change.place == Place("page_pool_put", "receive")


@pytest.mark.parametrize(
    ("function", "repeats"),
    [
        ("clear_page_erms", True),
        ("clear_page_rep", True),
        ("__memset", True),
        ("memcpy_orig", True),
        ("rep_movs_alternative", True),
        ("copy_user_enhanced_fast_string", True),
        ("veth_poll", False),
        ("page_pool_clear", False),
        ("skb_copy_bits", False),
    ],
)
def test_functions_of_repeating_instructions_are_known(function: str, repeats: bool) -> None:
    assert is_repeating(function) == repeats


# Tables


def test_a_table_ends_with_the_others_and_the_sum() -> None:
    rows = explain_rows(top=2)
    assert [(row["kind"], row["function"], row["delta_insn"]) for row in rows] == [
        ("function", "clear_page_erms", -512),
        ("function", "page_pool_put", 72.5),
        ("others", "(3 others)", 7),
        ("sum", "sum of receive", -432.5),
    ]
    assert rows[-1]["insn_a"] == FIGURE
    assert rows[-1]["insn_b"] == FIGURE - 432.5


@pytest.mark.parametrize("top", [1, 2, 3, 100])
@pytest.mark.parametrize("sides", [("receive",), PROFILE_SIDES], ids=["receive", "all"])
def test_what_is_shown_adds_up_however_much_is_left_out(top: int, sides: tuple[str, ...]) -> None:
    rows = explain_rows(sides=sides, top=top)
    parts = math.fsum(row["delta_insn"] for row in rows if row["kind"] != "sum")
    assert parts == pytest.approx(rows[-1]["delta_insn"], abs=1e-9)
    assert parts == pytest.approx(counts(AFTER).on(*sides) - counts().on(*sides), abs=1e-9)


def test_all_sides_are_shown_apart_and_summed() -> None:
    rows = explain_rows(sides=PROFILE_SIDES)
    sums = {row["side"]: row["delta_insn"] for row in rows if row["kind"] == "sum"}
    assert sums == {"receive": -432.5, "generator": 2, "rest": 0, "all": -430.5}
    assert [row["side"] for row in rows] == sorted((row["side"] for row in rows), key=(*PROFILE_SIDES, "all").index)


def test_a_function_that_costs_the_same_is_not_listed() -> None:
    assert "veth_xdp_rcv_one" not in by_name(explain_rows())


def test_marks_are_shown_and_explained() -> None:
    table = explain_table(counts(), counts(AFTER), sides=["receive"], top=25)
    assert as_text(table)[0] == ["clear_page_erms", "receive", "512.00", "0.00", "-512.00", "GONE, rep"]
    assert [note.partition(":")[0] for note in table.notes] == ["figures are instructions per packet", "rep"]


def with_memory(costs: Costs) -> Any:
    trials = [replace(one, profile=add_memory(one.profile)) for one in make_boot(DROP, costs) if one.profile]
    return case_counts(view_run(make_counted_run(trials, [DROP])), case_id(DROP))


def test_a_memory_pass_has_columns_of_its_own() -> None:
    table = explain_table(with_memory(INSN), with_memory(AFTER), sides=["receive"], top=25)
    assert [column.key for column in table.columns][5:8] == ["delta_loads", "delta_stores", "delta_lines"]
    rows = by_name(table.rows)
    assert (rows["page_pool_put"]["loads_a"], rows["page_pool_put"]["loads_b"]) == (0, 29)
    assert rows["veth_poll"]["delta_stores"] == pytest.approx(1.4)
    # Functions touch the same lines, so their numbers have no sum.
    assert rows["sum of receive"]["delta_lines"] is None
    assert rows["sum of receive"]["delta_loads"] == pytest.approx(-173, abs=1e-3)


def test_without_a_memory_pass_there_are_none() -> None:
    table = explain_table(counts(), with_memory(AFTER), sides=["receive"], top=25)
    assert not [column.key for column in table.columns if "loads" in column.key]
    assert by_name(table.rows)["veth_poll"]["loads_a"] is None


def test_the_profile_of_one_run_has_shares_of_a_side() -> None:
    table = profile_table(counts(), sides=["receive"], top=2)
    rows = table.rows
    assert [(row["function"], row["insn"]) for row in rows] == [
        ("clear_page_erms", 512),
        ("veth_poll", 100),
        ("(2 others)", 124),
        ("sum of receive", FIGURE),
    ]
    assert rows[0]["share_pct"] == pytest.approx(100 * 512 / FIGURE)
    assert rows[-1]["share_pct"] == 100


# Folded


def test_folded_lines_are_whole_numbers_for_a_thousand_packets() -> None:
    assert format_folded([counts()], ["generator", "rest"]) == [
        "generator;bpf:generate_live (tester) 70000",
        "generator;xdp_do_redirect 58000",
        "rest;tick_sched_timer 1000",
    ]


def test_folded_lines_of_two_runs_have_both_counts() -> None:
    lines = format_folded([counts(), counts(AFTER)], ["receive"])
    assert "receive;clear_page_erms 512000 0" in lines
    assert "receive;page_pool_put 0 72500" in lines


# The command


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Archive:
    """A folder of sealed runs."""

    folder: Path

    def add(self, run: Run) -> None:
        archive.seal(run, self.folder, *bench.find_flags(run))

    def explain(self, *arguments: str) -> Said:
        return self.run("explain", *arguments)

    def run(self, *arguments: str) -> Said:
        """The command line in this process: starting Python anew for each would take most of the time."""
        out, err = io.StringIO(), io.StringIO()
        argv = ["xdprepro", *arguments, "--archive", str(self.folder)]
        with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", argv)
            with pytest.raises(SystemExit) as caught:
                main()
        return Said(int(caught.value.code or 0), out.getvalue(), err.getvalue())


RUN_A, RUN_B, TIMED = (f"0190a0a0-0000-7000-8000-00000000000{digit}" for digit in "123")


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """Two counted runs of two kernels, and one that was timed."""
    found = Archive(tmp_path_factory.mktemp("runs"))
    cases = [DROP, READ, XSK]
    trials = [trial for case in cases for trial in make_boot(case)]
    found.add(make_counted_run(trials, cases, run_id=RUN_A, documents={"kernel_config": "CONFIG_NET=y\n"}))
    after = make_boot(DROP, AFTER)
    kernel = {"kernel__release": "6.13.0", "kernel__image_sha256": "i2", "kernel__config_sha256": "c2"}
    found.add(
        make_counted_run(
            after,
            [DROP],
            run_id=RUN_B,
            fingerprint=make_guest_fingerprint("veth", **kernel),
            documents={"kernel_config": "CONFIG_NET=y\nCONFIG_NEW=y\n"},
            skipped={case_id(READ): "the guest panicked"},
        )
    )
    found.add(replace(make_case_run(DROP, [100.0]), run_id=TIMED))
    return found


def test_the_command_prints_what_the_table_has(sealed: Archive) -> None:
    result = sealed.explain(RUN_A, RUN_B, case_id(DROP), "--json")
    assert result.status == 0
    said = json.loads(result.stdout)
    assert said["name"] == "explain"
    assert [row["delta_insn"] for row in said["rows"]] == [-512, 72.5, 7, 0, -432.5]


def test_a_pattern_that_means_one_case_is_enough(sealed: Archive) -> None:
    assert sealed.explain(RUN_A, RUN_B, "*no-touch*", "--top", "1").stdout.count("clear_page_erms") == 1


def test_text_shows_the_sum_line_last(sealed: Archive) -> None:
    lines = sealed.explain(RUN_A, RUN_B, "*no-touch*").stdout.splitlines()
    [last] = [line for line in lines if "sum of receive" in line]
    assert last.split()[-1] == "-432.50"


def test_one_run_shows_its_own_profile(sealed: Archive) -> None:
    said = json.loads(sealed.explain(RUN_A, "*no-touch*", "--side", "all", "--json").stdout)
    assert (said["name"], said["rows"][-1]["insn"]) == ("profile", FIGURE + 128 + 1)


def test_folded_lines_are_all_that_is_printed(sealed: Archive) -> None:
    lines = sealed.explain(RUN_A, "*no-touch*", "--folded", "--side", "rest").stdout
    assert lines == "rest;tick_sched_timer 1000\n"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((RUN_A, RUN_B, "xdp.tx"), USAGE, ("no case 'xdp.tx'", case_id(DROP), case_id(READ))),
        ((RUN_A, RUN_B, "xdp.drop*"), USAGE, ("'xdp.drop*' means 2 cases", case_id(DROP), case_id(READ))),
        ((RUN_A, RUN_B, "*read-data*"), 1, (f"run {RUN_B}", "skipped: the guest panicked")),
        ((RUN_A, RUN_B, "xsk*"), USAGE, (f"run {RUN_B}", "the case is not in the suite of this run")),
        ((TIMED, DROP.id), USAGE, ("it was timed", "--lab vm")),
        ((RUN_A, RUN_A, case_id(DROP)), USAGE, ("are the same run", "xdprepro explain A CASE")),
        ((RUN_A,), USAGE, ("use: xdprepro explain A [B] CASE",)),
        ((RUN_A, RUN_B, case_id(DROP), "--side", "left"), USAGE, ("no side 'left'", "receive, app, generator, rest")),
        (("nothing", RUN_B, case_id(DROP)), USAGE, ("nothing",)),
    ],
    ids=["unknown", "several", "skipped", "absent", "timed", "same", "one-word", "side", "run"],
)
def test_what_cannot_be_explained_is_said(
    sealed: Archive, arguments: tuple[str, ...], status: int, said: tuple[str, ...]
) -> None:
    result = sealed.explain(*arguments)
    assert result.status == status
    assert result.stdout == ""
    assert [text for text in said if text not in result.stderr] == []
    assert "Traceback" not in result.stderr


def test_what_confounds_is_said_below(sealed: Archive) -> None:
    other = replace(
        make_counted_run(make_boot(DROP, AFTER), [DROP]),
        run_id="0190a0a0-0000-7000-8000-000000000009",
        fingerprint=make_guest_fingerprint("veth", guest__qemu="11.0"),
    )
    sealed.add(other)
    said = json.loads(sealed.explain(RUN_A, other.run_id, "*no-touch*", "--json").stdout)
    assert said["notes"][1] == "not comparable: guest.qemu differs: see xdprepro compare"


# What show and compare make of counted runs


def test_show_has_instructions_and_no_rates(sealed: Archive) -> None:
    said = json.loads(sealed.run("archive", "show", RUN_A, "--json").stdout)
    assert said.keys() == {"run", "counts", "count_costs"}
    row = next(row for row in said["counts"]["rows"] if row["case_id"] == case_id(DROP))
    assert (row["figure"], row["receive"], row["generator"], row["total"]) == (FIGURE, FIGURE, 128, FIGURE + 129)
    assert "Mpps" not in sealed.run("archive", "show", RUN_A).stdout


def test_show_of_a_case_has_its_windows(sealed: Archive) -> None:
    said = json.loads(sealed.run("archive", "show", RUN_A, "--case", case_id(DROP), "--json").stdout)
    assert [table["name"] for table in said] == ["windows", "closure", "closure"]
    assert [row["packets"] for row in said[0]["rows"]] == [20_000, 60_000]
    assert said[0]["rows"][0]["receive"] == FIGURE * 20_000 + 300


def test_compare_names_the_functions_that_explain_it(sealed: Archive) -> None:
    result = sealed.run("compare", RUN_A, RUN_B, "--json")
    said = json.loads(result.stdout)
    assert said["dimensions"]["rows"] == [
        {"dimension": "kernel", "a": "6.12.1", "b": "6.13.0", "confounds": False},
    ]
    assert [row["symbol"] for row in said["config"]["rows"]] == ["NEW"]
    row = said["count_compare"]["rows"][0]
    assert (row["verdict"], row["delta_insn"], row["bound_insn"]) == ("IMPROVED", -432.5, 0.5)
    assert row["functions"] == [["clear_page_erms", -512], ["page_pool_put", 72.5], ["veth_poll", 7]]
    assert result.status == 0


def test_runs_of_an_emulated_processor_are_not_to_be_allowed(tmp_path: Path) -> None:
    emulated = Archive(tmp_path)
    finger = make_guest_fingerprint("veth", guest__accel="tcg") | {"dut": {"port": {}}, "tester": {"port": {}}}
    for run_id in (RUN_A, RUN_B):
        emulated.add(make_case_run(DROP, [100.0, 101.0], run_id=run_id, fingerprint=finger))
    result = emulated.run("compare", RUN_A, RUN_B, "--allow-confounded")
    assert result.status == FAILED
    assert "INCOMPARABLE" in result.stdout
    assert result.stderr.splitlines() == [
        "error: the runs are not comparable: a processor was emulated: these times are the emulator's, and say nothing "
        "of a real one",
        "hint: count instructions, which is what 'xdprepro run' does in guests, or use --accel kvm",
    ]

# SPDX-License-Identifier: GPL-2.0-or-later
"""Published tables made again: every cell that can be measured has a cell in the suite of that name."""

import pytest
from conftest import ROOT
from made_counts import make_boot, make_counted_run
from made_trials import make_run, make_trial

from xdprepro.cases import PARAMETERS, Case, make_case
from xdprepro.cli.archive import REFERENCE
from xdprepro.cli.suites import load_suite
from xdprepro.published import ANY, Published, parse_published, published_tables
from xdprepro.view import view_run

NAMES = sorted(path.stem for path in REFERENCE.glob("*.toml"))
TX, REDIRECT = Case("xdp.tx.swap-macs"), Case("xdp.redirect.swap-macs")


def load(name: str) -> Published:
    return parse_published((REFERENCE / f"{name}.toml").read_text(), name)


def alike(one: Case, other: Case) -> bool:
    return all(one.get(key) == other.get(key) for key in PARAMETERS.keys() - ANY) and one.case == other.case


@pytest.mark.parametrize("name", NAMES)
def test_the_suite_of_that_name_measures_every_cell_that_can_be(name: str) -> None:
    suite = load_suite(name)
    wanted = [make_case(figure.case) for figure in load(name).figures if figure.case]
    assert wanted
    for case in wanted:
        assert any(alike(case, one) for one in suite.cases), case.id


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_for_each_row_and_column_once_and_say_where_they_are_from(name: str) -> None:
    published = load(name)
    cells = [(figure.row, figure.column) for figure in published.figures]
    assert len(cells) == len(set(cells))
    assert {figure.column for figure in published.figures} <= set(published.columns)
    assert {gap.without for gap in published.gaps} | {gap.with_ for gap in published.gaps} <= set(published.rows)
    assert "netdev" in published.about


def test_measured_stands_beside_published_and_neither_is_the_other() -> None:
    trials = [make_trial(case, boot=boot, ns=ns) for case, ns in ((TX, 100.0), (REDIRECT, 150.0)) for boot in range(2)]
    table, steps = published_tables(load("brouer2017"), view_run(make_run(trials, [TX, REDIRECT])))
    rows = {row["row"]: row for row in table.rows}
    tx = rows["tx, MACs swapped (xdp2)"]
    assert tx["measured.rate"] == pytest.approx(1e7, rel=1e-3)
    assert tx["published.rate"] == 6344472
    assert rows["drop, no touch (xdp_bench01)"]["measured.rate"] is None
    step, other = steps.rows
    assert (step["measured"], step["published_ns"]) == (pytest.approx(50.0, rel=1e-3), 59.98)
    assert (other["measured"], other["published_ns"]) == (None, 39.77)


def test_a_counted_run_has_instructions_and_says_so() -> None:
    table, _ = published_tables(load("brouer2017"), view_run(make_counted_run(make_boot(TX), [TX])))
    assert "instructions per packet" in table.title
    measured = [row["measured.rate"] for row in table.rows if row["measured.rate"] is not None]
    assert measured


def test_what_was_never_merged_is_only_quoted() -> None:
    v4 = [figure for figure in load("topel2018").figures if figure.column.startswith("V4")]
    assert len(v4) == 6
    assert all(figure.pps and not figure.case for figure in v4)


def test_reference_is_data_and_no_run() -> None:
    assert {path.suffix for path in (ROOT / "archive/reference").iterdir()} == {".toml"}

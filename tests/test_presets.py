# SPDX-License-Identifier: GPL-2.0-or-later
"""The suites that come with xdprepro, what is said of them, and how long they take."""

import itertools
import json
import re

import pytest
from conftest import ROOT
from typer.testing import CliRunner

from xdprepro.cases import PARAMETERS
from xdprepro.cli import app
from xdprepro.cli.suites import load_suite, suite_names
from xdprepro.duration import OVERHEAD_S, RESTART_S, SEARCH_STEPS, boots_s, slot_s, suite_s
from xdprepro.kinds import CASE_KINDS
from xdprepro.suite import parse_suite

WANTED = {"smoke", "core", "brouer2017", "topel2018", "karlsson2018", "parola2022", "xdp-bench", "full"}


def show(*words: str) -> str:
    done = CliRunner().invoke(app, ["suite", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_all_presets_are_there() -> None:
    assert set(suite_names()) >= WANTED


def test_full_has_every_case_in_every_mode_that_it_has() -> None:
    cases = load_suite("full").cases
    assert {case.case for case in cases} == set(CASE_KINDS)
    for name in ("attach_mode", "bind_mode", "wakeup", "access", "select", "remote", "packet_wakeup", "ring_fill"):
        used = {case.get(name) for case in cases if case.has(name)}
        assert used == set(PARAMETERS[name].allowed), name


def test_full_looks_for_stalls_of_sockets_in_every_way_to_wake_them() -> None:
    closed = [case for case in load_suite("full").cases if case.load == "closed" and case.has("wakeup")]
    looked = {(case.bind_mode, case.wakeup, case.outstanding) for case in closed}
    modes, wakeups = (PARAMETERS[name].allowed for name in ("bind_mode", "wakeup"))
    assert looked == set(itertools.product(modes, wakeups, (1, 64)))


def test_core_takes_half_an_hour_and_smoke_a_minute() -> None:
    planned = {name: suite_s(load_suite(name), load_suite(name).cases) for name in ("core", "smoke")}
    assert 20 * 60 < planned["core"] <= 30 * 60
    assert planned["smoke"] <= 75


def test_time_counts_restarts_trials_searches_and_calibrations() -> None:
    drop = '[[case]]\ncase = "xdp.drop.no-touch"\n'
    suite = parse_suite(f"restarts = 2\ntrials = 3\n{drop}", "drop")
    one_s = suite.cases[0].settle_s + suite.cases[0].measure_s + OVERHEAD_S
    assert suite_s(suite, suite.cases) == pytest.approx(2 * (RESTART_S + 3 * one_s))
    tx = parse_suite('restarts = 1\ntrials = 3\n[[case]]\ncase = "xdp.tx.swap-macs"\nload = "search"\n', "tx")
    assert slot_s(tx.cases[0]) == pytest.approx(SEARCH_STEPS * one_s)
    assert suite_s(tx, tx.cases) == pytest.approx(RESTART_S + (SEARCH_STEPS + 3) * one_s)
    assert suite_s(tx, []) == 0
    assert boots_s([4, 4], at_once=2) == boots_s([4], at_once=1)


def test_show_names_what_is_other_than_usual() -> None:
    said = json.loads(show("show", "topel2018", "--json"))
    unusual = {case["id"]: case["unusual"] for case in said["case"]}
    assert unusual["xsk.rxdrop.native.zero-copy.60B"] == {"bind_mode": "zero-copy"}
    assert unusual["pkt-v2.rxdrop.60B"] == {}
    assert said["places"] == []
    assert "bind_mode = zero-copy" in show("show", "topel2018")


def test_list_has_cells_and_time_of_each() -> None:
    said = {suite["name"]: suite for suite in json.loads(show("list", "--json"))}
    assert said["smoke"]["cases"] == len(load_suite("smoke").cases)
    assert said["core"]["duration_s"] == suite_s(load_suite("core"), load_suite("core").cases)


def test_the_guide_has_every_case_parameter_and_preset() -> None:
    guide = (ROOT / "docs/suite.md").read_text()
    rows = set(re.findall(r"^\| `([^`]+)` \|", guide, re.MULTILINE))
    assert rows == {*CASE_KINDS, *PARAMETERS, *suite_names()}

# SPDX-License-Identifier: GPL-2.0-or-later
"""Suites: every mistake is named, lists multiply, and a plan is a seeded permutation."""

import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from conftest import ROOT

from xdprepro.cases import PARAMETERS, Case, complete_params, make_case
from xdprepro.cli.suites import FILE_BYTES, load_suite
from xdprepro.errors import USAGE, XdpreproError
from xdprepro.kinds import CASE_KINDS
from xdprepro.suite import Suite, is_suite_name, parse_suite

GOOD = """
title = "t"
restarts = 3
trials = 2
seed = 7

[defaults]
measure_s = 2.0

[[case]]
case = "xdp.drop.no-touch"
frame_len = [60, 1514]
attach_mode = ["native", "skb"]

[[case]]
case = "xsk.rxdrop"
"""


def good() -> Suite:
    return parse_suite(GOOD, "good")


def case_of(lines: str, *, name: str = "xdp.drop.no-touch") -> Case:
    [case] = parse_suite(f'[[case]]\ncase = "{name}"\n{lines}', "one").cases
    return case


# What a suite is


def test_lists_of_a_case_multiply_in_the_order_written() -> None:
    cells = [(case.frame_len, case.attach_mode) for case in good().cases[:4]]
    assert sorted(cells) == [(60, "native"), (60, "skb"), (1514, "native"), (1514, "skb")]
    assert len(good().cases) == 5


def test_defaults_hold_where_a_case_says_nothing() -> None:
    assert {case.measure_s for case in good().cases} == {2.0}
    suite = parse_suite(GOOD + "measure_s = 3.0\n", "good")
    assert [case.measure_s for case in suite.cases] == [2.0, 2.0, 2.0, 2.0, 3.0]


def test_a_socket_has_its_own_defaults() -> None:
    socket = good().cases[-1]
    assert (socket.bind_mode, socket.wakeup) == ("copy", "need-wakeup")


def test_socket_defaults_of_the_suite_are_for_sockets_only() -> None:
    text = '[defaults]\nwakeup = "poll"\n[[case]]\ncase = "xsk.rxdrop"\n[[case]]\ncase = "xdp.drop.no-touch"\n'
    socket, drop = parse_suite(text, "two").cases
    assert (socket.wakeup, drop.wakeup, drop.bind_mode) == ("poll", "", "")


def test_a_case_has_only_the_parameters_of_its_kind() -> None:
    drop, ring = Case("xdp.drop.no-touch", xsk_batch=32), Case("ring.ptr-ring")
    assert (drop.xsk_batch, drop.lines, drop.loss_ratios, drop.load) == (0, 0, (), "saturate")
    assert (ring.frame_len, ring.load, ring.attach_mode, ring.ring_batch) == (0, "", "", 16)


def test_a_list_of_loss_ratios_is_one_value_and_a_list_of_lists_several() -> None:
    lines = 'case = "xdp.drop.no-touch"\nload = "search"\nloss_ratios = '
    ratios = [
        [case.loss_ratios for case in parse_suite(f"[[case]]\n{lines}{value}", "one").cases]
        for value in ("[0, 0.005]", "[[0], [0.001]]")
    ]
    assert ratios == [[(0.0, 0.005)], [(0.0,), (0.001,)]]


def test_a_value_that_some_cells_have_no_use_for_is_left_out_there() -> None:
    suite = parse_suite('[[case]]\ncase = "xsk.rxdrop"\nwakeup = ["irq", "busy-poll"]\nbusy_poll_us = 50', "two")
    assert [case.busy_poll_us for case in suite.cases] == [0, 50]


def test_a_cpumap_that_redirects_makes_a_forward_case() -> None:
    sink, forward = (Case("xdp.redirect-cpu.no-touch", remote=remote) for remote in ("drop", "redirect"))
    assert (sink.role, forward.role) == ("sink", "forward")


def test_parameters_of_an_older_archive_are_completed() -> None:
    old = {"case": "xsk.rxdrop", "wakeup": "busy", "xsk_batch": 32, "port": "igb", "packets": [8]}
    new = complete_params(old)
    assert (new["wakeup"], new["xsk_batch"], new["xsk_ring_tx"], new["lines"]) == ("need-wakeup", 32, 2048, 0)
    assert (new["port"], new["packets"], new["loss_ratios"]) == ("igb", [8], [])
    assert "measure_s" not in new


def test_every_parameter_is_a_field_with_an_allowed_default_or_none() -> None:
    for name in PARAMETERS:
        assert hasattr(Case("xdp.drop.no-touch"), f"{name}_" if name == "pass" else name)
    assert {parameter.group for parameter in PARAMETERS.values()} == {g for k in CASE_KINDS.values() for g in k.groups}


@pytest.mark.parametrize("name", CASE_KINDS)
def test_every_kind_is_a_case_with_a_legal_id_that_comes_back_from_its_parameters(name: str) -> None:
    case = case_of("", name=name)
    assert re.fullmatch(r"[A-Za-z0-9._-]+", case.id)
    assert make_case(json.loads(json.dumps(case.params()))) == make_case(complete_params(case.params())) == case


def test_a_list_of_cases_is_one_of_each() -> None:
    suite = parse_suite('[[case]]\ncase = ["xdp.drop.no-touch", "xsk.rxdrop"]\nflows = [1, 2]', "two")
    assert [(case.case, case.flows) for case in suite.cases] == [
        ("xdp.drop.no-touch", 1),
        ("xdp.drop.no-touch", 2),
        ("xsk.rxdrop", 1),
        ("xsk.rxdrop", 2),
    ]


def test_whole_seconds_are_seconds() -> None:
    assert case_of("measure_s = 2").measure_s == 2.0
    assert type(case_of("measure_s = 2").measure_s) is float


def test_text_is_kept_as_it_was() -> None:
    assert good().text == GOOD


def test_restarts_trials_and_seed_have_defaults() -> None:
    suite = parse_suite('[[case]]\ncase = "xdp.drop.no-touch"', "bare")
    assert (suite.restarts, suite.trials, suite.seed, suite.title) == (3, 1, 1, "")


def test_ids_are_unique_and_legal_names_of_groups() -> None:
    ids = [case.id for case in good().cases]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", one) for one in ids)


@pytest.mark.parametrize(
    ("name", "lines", "case_id"),
    [
        ("xdp.drop.no-touch", "", "xdp.drop.no-touch.native.60B"),
        ("xdp.drop.no-touch", 'attach_mode = "skb"\nframe_len = 1514', "xdp.drop.no-touch.skb.1514B"),
        (
            "xdp.drop.no-touch",
            "flows = 8\ngenerator_batch = 32",
            "xdp.drop.no-touch.native.60B.flows-8.generator_batch-32",
        ),
        ("xdp.drop.no-touch", 'generator = "af-packet"', "xdp.drop.no-touch.native.60B.generator-af-packet"),
        ("xsk.rxdrop", "", "xsk.rxdrop.native.copy.60B"),
        ("xsk.rxdrop", 'wakeup = "poll"\nxsk_ring_rx = 64', "xsk.rxdrop.native.copy.60B.wakeup-poll.xsk_ring_rx-64"),
        ("xsk.rxdrop", "frags = true\nframe_len = 9000", "xsk.rxdrop.native.copy.9000B.frags"),
        ("xdp.drop.mem", 'lines = "l2*0.5"', "xdp.drop.mem.native.60B.lines-l2x0.5"),
        (
            "xdp.tx.swap-macs",
            'load = "search"\nloss_ratios = [0.01, 0]',
            "xdp.tx.swap-macs.native.60B.load-search.loss_ratios-0_0.01",
        ),
        ("xdp.drop.no-touch", 'pass = "pmu"\npmu_group = "llc"', "xdp.drop.no-touch.native.60B.pass-pmu.pmu_group-llc"),
        ("pkt-v2.txonly", "bypass = false", "pkt-v2.txonly.60B.no-bypass"),
        ("ring.head-tail", "ring_batch = 1", "ring.head-tail.ring_batch-1"),
    ],
)
def test_an_id_names_what_is_not_usual(name: str, lines: str, case_id: str) -> None:
    assert case_of(lines, name=name).id == case_id


@pytest.mark.parametrize(
    ("name", "is_name"), [("smoke", True), ("a_b-2", True), ("./smoke.toml", False), ("-x", False)]
)
def test_a_suite_name_is_no_path(name: str, is_name: bool) -> None:
    assert is_suite_name(name) == is_name


@pytest.mark.parametrize("path", sorted((ROOT / "xdprepro/suites").glob("*.toml")), ids=lambda path: path.name)
def test_suites_of_the_package_are_good(path: Path) -> None:
    suite = parse_suite(path.read_text(), path.stem)
    assert is_suite_name(suite.name)
    assert suite.title
    assert all(case.case in CASE_KINDS for case in suite.cases)


# Mistakes: each names the suite, the key, the value and what is allowed.

MISTAKES = {
    "no case": ("restarts = 3", "the suite has no [[case]]", "[[case]]"),
    "unknown top key": (GOOD.replace("restarts", "restart"), "unknown key 'restart'", "did you mean restarts?"),
    "unlike any key": ("xyzzy = 1" + GOOD, "unknown key 'xyzzy'", "use title, restarts, trials, seed, defaults, case"),
    "unknown case key": (GOOD + "frame_length = 60", "unknown key 'frame_length'", "did you mean frame_len?"),
    "unknown default": (GOOD.replace("measure_s", "mesure_s"), "unknown key 'mesure_s'", "did you mean measure_s?"),
    "case in defaults": (GOOD.replace("measure_s = 2.0", 'case = "xsk.rxdrop"'), "unknown key 'case'", "use "),
    "unknown case": ('[[case]]\ncase = "xdp.dorp.no-touch"', "case = 'xdp.dorp.no-touch'", "mean xdp.drop.no-touch?"),
    "unlike any case": ('[[case]]\ncase = "qqq"', "case = 'qqq' is unknown", "use one of xdp.drop.no-touch, "),
    "no case name": ("[[case]]\nframe_len = 60", "a [[case]] has no case name: {'frame_len': 60}", "add one of: "),
    "no case in a list": ("[[case]]\ncase = []", "case is an empty list", "give case a value"),
    "one bad case in a list": ('[[case]]\ncase = ["xsk.rxdrop", 5]', "case = 5 is unknown", "use one of"),
    "case not a word": ("[[case]]\ncase = 5", "case = 5", "use one of xdp.drop.no-touch"),
    "unknown mode": (GOOD + 'attach_mode = "nativ"', "attach_mode = 'nativ' is unknown", "did you mean native?"),
    "too short a frame": (GOOD + "frame_len = 59", "frame_len = 59 is not allowed", "use 60 to 9000 bytes"),
    "too long a frame": (GOOD + "frame_len = 9001", "frame_len = 9001 is not allowed", "use 60 to 9000 bytes"),
    "a word for a number": (GOOD + 'frame_len = "60"', "frame_len = '60' is not allowed", "use 60 to 9000 bytes"),
    "a bool for a number": (GOOD + "flows = true", "flows = True is not allowed", "use 1 to 60000"),
    "a float for a number": (GOOD + "generator_batch = 1.5", "generator_batch = 1.5 is not allowed", "use 1 to 256"),
    "one bad in a list": (GOOD + "frame_len = [60, 5]", "frame_len = 5 is not allowed", "use 60 to 9000 bytes"),
    "an empty list": (GOOD + "frame_len = []", "xsk.rxdrop: frame_len is an empty list", "give frame_len a value"),
    "no power of two": (GOOD + "xsk_ring_rx = 1000", "xsk_ring_rx = 1000 is not allowed", "a power of two"),
    "no duration": (GOOD + "measure_s = 0", "measure_s = 0 is not allowed", "use 0.05 to 3600 s"),
    "nan": (GOOD + "measure_s = nan", "measure_s = nan is not allowed", "use 0.05 to 3600 s"),
    "infinite": (GOOD + "settle_s = inf", "settle_s = inf is not allowed", "use 0 to 600 s"),
    "too few samples": (
        GOOD + "interval_s = 1.5",
        "xsk.rxdrop.native.copy.60B: interval_s 1.5 leaves fewer than two intervals in measure_s 2.0",
        "make measure_s at least twice interval_s",
    ),
    "socket key elsewhere": (
        '[[case]]\ncase = "xdp.drop.no-touch"\nbind_mode = "copy"',
        "xdp.drop.no-touch: bind_mode is for xsk.*, xdpxsk.* cases only",
        "remove bind_mode",
    ),
    "a key of one case": (
        GOOD + "fanout = 2",
        "xsk.rxdrop: fanout is for xdp.redirect-multi.swap-macs cases only",
        "remove fanout",
    ),
    "a word of old": (GOOD + 'wakeup = "busy"', "wakeup = 'busy' is unknown", "it is called need-wakeup now"),
    "a rate without a fixed load": (
        GOOD + "rate_pps = 1000",
        "xsk.rxdrop: rate_pps means nothing without load = fixed",
        'add load = "fixed", or remove rate_pps',
    ),
    "a fixed load without a rate": (GOOD + 'load = "fixed"', "load-fixed: load = fixed has no rate", "add rate_pps"),
    "a closed loop that never closes": (GOOD + 'load = "closed"', "waits for packets that come back", "that forwards"),
    "a search in a pass without rates": (
        GOOD + 'load = "search"\npass = "pmu"',
        "pass = pmu measures no rate to search for",
        "use load = fixed",
    ),
    "a loss that is no list": (GOOD + 'load = "search"\nloss_ratios = 0.001', "loss_ratios = 0.001", "use a list of"),
    "a loss above a half": (GOOD + 'load = "search"\nloss_ratios = [0.6]', "loss_ratios = [0.6]", "0 to 0.5"),
    "a jumbo frame in one page": (GOOD + "frame_len = 3401", "frame_len 3401 does not fit into one page", "frags"),
    "a jumbo live frame": (
        GOOD + 'frame_len = 9000\nfrags = true\ngenerator = "live-frames"',
        "live frames of 9000 bytes do not fit",
        'use generator = "af-packet"',
    ),
    "batch that is large for its ring": (
        '[[case]]\ncase = "ring.ptr-ring"\nring_size = 64\n',
        "ring_batch 16 is more than an eighth of ring_size 64",
        "make ring_size at least eight times ring_batch",
    ),
    "sockets without a common UMEM": (GOOD + "xsk_sockets = 2", "need a shared UMEM", "add shared_umem = true"),
    "sockets of a queue that only send": (
        '[[case]]\ncase = "xsk.txonly"\nxsk_sockets = 2\nshared_umem = true',
        "sockets of a queue share its completion ring",
        "use xsk_sockets = 1 with xsk.txonly",
    ),
    "sockets with too small a share": (
        GOOD + "xsk_sockets = 4\nshared_umem = true\nxsk_ring_fill = 128\nxsk_ring_rx = 64",
        "leaves xsk_sockets = 4 fewer than 64 frames each",
        "make xsk_ring_fill larger",
    ),
    "an access list without room": (
        GOOD.replace("xsk.rxdrop", "xdp.drop.fw") + "acl = 9\nflows = 10",
        "an access list of 9 entries cannot have the flows that are to be dropped, of 10",
        "set acl to the number of flows",
    ),
    "fewer sessions than flows": (
        GOOD.replace("xsk.rxdrop", "xsk.l2fwd.lbfw") + "sessions = 7\nflows = 10\ndrop_share = 20",
        "7 sessions are fewer than flows, 10",
        "set sessions to the number of flows",
    ),
    "a frame too long for its place": (
        GOOD + "frame_len = 3000\nxsk_frame_size = 2048",
        "frame_len 3000 does not fit into xsk_frame_size 2048",
        "use xsk_frame_size = 4096",
    ),
    "a number for a choice": (GOOD + "frags = 1", "frags = 1 is not allowed", "use true or false"),
    "a working set of nothing": (
        GOOD.replace("xsk.rxdrop", "xdp.drop.mem") + "lines = 0",
        "lines = 0",
        "1 to 10000000",
    ),
    "a working set of no cache": (
        GOOD.replace("xsk.rxdrop", "xdp.drop.mem") + 'lines = "l4*2"',
        "lines = 'l4*2' is not allowed",
        'a multiple of a cache, as "l2*0.5"',
    ),
    "a bad default of no case": (
        GOOD.replace("measure_s = 2.0", "ring_batch = 65"),
        "ring_batch = 65 is not allowed",
        "use 1 to 64",
    ),
    "twice the same": (
        GOOD + '[[case]]\ncase = "xsk.rxdrop"',
        "case xsk.rxdrop.native.copy.60B is there twice",
        "remove one",
    ),
    "twice in a list": (
        GOOD + "flows = [2, 2]",
        "case xsk.rxdrop.native.copy.60B.flows-2 is there twice",
        "remove one",
    ),
    "no restarts": (GOOD.replace("restarts = 3", "restarts = 0"), "restarts = 0 is not allowed", "1 to 1000"),
    "too many trials": (GOOD.replace("trials = 2", "trials = 1001"), "trials = 1001 is not allowed", "1 to 1000"),
    "negative seed": (GOOD.replace("seed = 7", "seed = -1"), "seed = -1 is not allowed", "0 to 2147483648"),
    "restarts as a word": (
        GOOD.replace("restarts = 3", 'restarts = "3"'),
        "restarts = '3' is not allowed",
        "1 to 1000",
    ),
    "restarts as a bool": (
        GOOD.replace("restarts = 3", "restarts = true"),
        "restarts = True is not allowed",
        "1 to 1000",
    ),
    "no TOML": ("[[case", "not valid TOML: ", "mend the file"),
    "case is a table": ('[case]\ncase = "xsk.rxdrop"', "[[case]] a list of tables", "xdprepro suite show"),
    "defaults is a list": (
        '[[defaults]]\n[[case]]\ncase = "xsk.rxdrop"',
        "[defaults] must be one table",
        "xdprepro suite show",
    ),
    "nested too deep": ("a = " + "[" * 5000, "lists or tables are nested too deep", "plain values"),
    "tables too deep": (
        "title" + ".a" * 5000 + " = 1" + GOOD.replace('title = "t"', ""),
        "title = (dict, too long to show)",
        "use a text",
    ),
    "thousands of digits": ("restarts = " + "9" * 5000, "not valid TOML: ", "mend the file"),
    "thousands of hex digits": (
        "restarts = 0x" + "f" * 5000 + GOOD.replace("restarts = 3", ""),
        "restarts = (int, too long to show) is not allowed",
        "1 to 1000",
    ),
    "a mode of thousands of digits": (GOOD + "attach_mode = 0x" + "f" * 5000, "attach_mode = (int, ", "use one of"),
    "more than a float holds": (GOOD + "measure_s = 0x" + "f" * 500, "measure_s = 1148130695", "use 0.05 to 3600 s"),
    "too many cases": (
        GOOD + f"flows = {list(range(1, 6001))}\ngenerator_batch = {list(range(1, 257))}",
        "its lists multiply to 1536004 cases",
        "a suite has 10000 cases at most",
    ),
    "one row too many": (
        GOOD.replace("[60, 1514]", str(list(range(60, 3401)))) + f"flows = {list(range(1, 3320))}",
        "its lists multiply to 10001 cases",
        "at most",
    ),
    "a long name": (f'[[case]]\ncase = "{"x" * 500000}"', "xxx... (500002 characters) is unknown", "use one of"),
    "a long key": (GOOD + f"{'x' * 500000} = 1", "xxx... (500002 characters)", "use case, attach_mode"),
    "a long name in TOML": (f"[{'x' * 500000}]\n[{'x' * 500000}]", "not valid TOML: ", "mend the file"),
    "a long case without a name": (f'[[case]]\nx = "{"x" * 500000}"', "unknown key 'x'", "use case, attach_mode"),
    "title is a number": (GOOD.replace('title = "t"', "title = 5"), "title = 5 is not allowed", "use a text"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_its_cure(mistake: str) -> None:
    text, fact, hint = MISTAKES[mistake]
    with pytest.raises(XdpreproError) as caught:
        parse_suite(text, "mine")
    assert caught.value.message.startswith("suite mine: ")
    assert fact in caught.value.message
    assert hint in caught.value.hint
    assert len(caught.value.message) < 500
    assert caught.value.status == USAGE


# Files


def test_a_byte_order_mark_is_no_part_of_a_suite(tmp_path: Path) -> None:
    (tmp_path / "marked.toml").write_text(GOOD, encoding="utf-8-sig")
    suite = load_suite(str(tmp_path / "marked.toml"))
    assert (suite.name, suite.text) == ("marked", GOOD)


def test_a_file_of_a_mebibyte_is_the_largest(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.write_text(GOOD + "#" * (FILE_BYTES - len(GOOD)))
    assert load_suite(str(path)).cases == good().cases
    path.write_text(GOOD + "#" * (FILE_BYTES - len(GOOD)) + "ä")
    with pytest.raises(XdpreproError, match=rf"^suite {path}: larger than 1048576 bytes$") as caught:
        load_suite(str(path))
    assert caught.value.status == USAGE


def test_a_suite_whose_file_name_is_no_text_has_a_name_that_is(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.toml")
    Path(path).write_text(GOOD)
    assert load_suite(path).name == r"a\xff"


# Plans


def test_a_plan_has_every_trial_once() -> None:
    suite = good()
    ids = [case.id for case in suite.cases]
    plan = suite.plan(ids)
    assert Counter(plan) == Counter((b, t, one) for b in range(3) for t in range(2) for one in ids)


def test_a_round_goes_through_all_cases_before_the_next() -> None:
    plan = good().plan("abcde")
    rounds = [plan[at : at + 5] for at in range(0, len(plan), 5)]
    assert [{(slot.boot, slot.trial) for slot in one} for one in rounds] == [
        {(b, t)} for b in range(3) for t in range(2)
    ]


def test_a_plan_is_the_same_for_the_same_seed() -> None:
    assert good().plan("abcde") == good().plan(iter("abcde"))


def test_another_seed_or_run_gives_another_order() -> None:
    plans = [good().plan("abcde"), good().plan("abcde", run=1), parse_suite(GOOD.replace("7", "8"), "s").plan("abcde")]
    assert len(set(plans)) == 3


def test_rounds_have_different_orders() -> None:
    plan = good().plan("abcde")
    assert len({"".join(slot.case_id for slot in plan[at : at + 5]) for at in range(0, len(plan), 5)}) > 1


def test_every_case_comes_first_about_equally_often() -> None:
    suite = parse_suite(GOOD.replace("restarts = 3", "restarts = 1000"), "many")
    firsts = Counter(slot.case_id for slot in suite.plan("abcde")[::5])
    assert firsts.total() == 2000
    assert all(300 <= firsts[one] <= 500 for one in "abcde")


def test_a_plan_without_cases_is_empty() -> None:
    assert good().plan([]) == ()


def test_a_trial_takes_settle_and_measure() -> None:
    assert good().trial_s(Case("xsk.rxdrop", settle_s=0.5, measure_s=2.0)) == 2.5

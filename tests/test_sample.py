# SPDX-License-Identifier: GPL-2.0-or-later
"""What agents and journals said, read back."""

import json
from dataclasses import replace
from typing import Any

import pytest

from xdprepro.errors import STORAGE, XdpreproError
from xdprepro.sample import (
    Profile,
    ProfileRow,
    Reading,
    Sample,
    Stream,
    TrialKey,
    format_agent_error,
    format_profile,
    merge,
    parse_journal,
    parse_profile,
    parse_stream,
)

Json = dict[str, Any]


def edge(name: str, **sources: dict[str, int]) -> Json:
    readings = [{"source": key, "t0_ns": 1, "t1_ns": 2, "counters": value} for key, value in sources.items()]
    return {"edge": name, "sources": readings}


def sample(index: int, phase: str, count: int) -> Json:
    return {"sample": index, "phase": phase, "t0_ns": 10 * index, "t1_ns": 10 * index + 1, "counters": {"a.b": count}}


# Streams


def test_a_stream_keeps_samples_in_order_and_each_message_in_its_place() -> None:
    lines: list[Json] = [
        edge("start", netdev={"rx_packets": 5}),
        {"ready": True, "attach": {"prog_id": 1}},
        sample(0, "settle", 0),
        sample(1, "measure", 3),
        {"measured": True},
        {"stopped": True},
        {"drained": True, "drain_ns": 1},
        edge("end", netdev={"rx_packets": 9}),
        {"done": True, "attach": {"prog_id": 2}},
    ]
    stream = parse_stream(lines)
    assert stream.ready["attach"] == {"prog_id": 1}
    assert stream.done["attach"] == {"prog_id": 2}
    assert stream.samples == (Sample("settle", 0, 1, {"a.b": 0}), Sample("measure", 10, 11, {"a.b": 3}))
    assert stream.edges["end"] == (Reading("netdev", 1, 2, {"rx_packets": 9}),)
    assert stream.error == ""


def test_messages_of_a_newer_agent_are_left_out() -> None:
    assert parse_stream([{"novelty": 1}, sample(0, "measure", 1)]).samples == (Sample("measure", 0, 1, {"a.b": 1}),)


def test_an_agent_that_said_nothing_is_an_empty_stream() -> None:
    assert parse_stream([]) == Stream()
    assert Stream().delta() == {}


def test_an_error_says_object_step_and_reason() -> None:
    error = {"object": "dut0 queue 0", "step": "bind", "reason": "Device or resource busy", "errno": 16}
    assert parse_stream([{"error": error}]).error == "dut0 queue 0: bind: Device or resource busy"
    assert format_agent_error({"step": "bind"}) == "?: bind: ?"


def test_reasons_of_absent_sources_are_kept() -> None:
    lines = [edge(name) | {"absent": [{"source": f"of_{name}", "reason": "none"}]} for name in ("start", "end")]
    assert parse_stream(lines).absent == {"of_start": "none", "of_end": "none"}


def test_edge_counters_are_named_by_source() -> None:
    stream = parse_stream([edge("start", netdev={"rx": 1}, ethtool={"rx": 2})])
    assert stream.edge("start") == {"netdev.rx": 1, "ethtool.rx": 2}
    assert stream.edge("end") == {}


def test_delta_is_end_minus_start() -> None:
    stream = parse_stream(
        [edge("start", n={"same": 5, "grew": 5, "fell": 5}), edge("end", n={"same": 5, "grew": 9, "fell": 2})]
    )
    assert stream.delta() == {"n.same": 0, "n.grew": 4, "n.fell": -3}


def test_a_counter_that_the_start_lacks_began_at_zero() -> None:
    assert parse_stream([edge("start", n={}), edge("end", n={"new": 7})]).delta() == {"n.new": 7}


def test_delta_is_exact_beyond_double_precision() -> None:
    stream = parse_stream([edge("start", n={"c": 2**63}), edge("end", n={"c": 2**63 + 1})])
    assert stream.delta() == {"n.c": 1}


# Journals


def head(**changes: Any) -> Json:
    record: Json = {"rec": "run", "run_id": "r", "plan_id": "p", "suite": "s", "lab": "veth", "lab_kind": "veth"}
    record |= {"t_utc_ns": 100, "restarts": 2, "trials_per_restart": 1, "design": "single", "fingerprint": {"a": 1}}
    return record | {"documents": {"suite": "text"}, "cases": {"c": {"case": "xdp.drop.no-touch"}}} | changes


def boot(index: int, t_utc_ns: int) -> Json:
    record = {"rec": "boot", "boot": index, "kind": "restart", "boot_id": f"b{index}", "kernel_release": "6.12"}
    return record | {"t_utc_ns": t_utc_ns}


def trial(slot: int, t_utc_ns: int) -> Json:
    return {"rec": "trial", "slot": slot, "case_id": "c", "boot": slot, "trial": 0, "t_utc_ns": t_utc_ns}


def line(slot: int, side: str, msg: Json) -> Json:
    return {"rec": "line", "slot": slot, "side": side, "msg": msg}


def trial_end(slot: int, status: str = "ok", reason: str = "") -> Json:
    return {"rec": "trial_end", "slot": slot, "status": status, "reason": reason}


WHOLE = [
    head(),
    {"rec": "skip", "case_id": "d", "reason": "no zero-copy"},
    boot(0, 110),
    trial(0, 120),
    line(0, "dut", sample(0, "measure", 1)),
    line(0, "tester", sample(0, "measure", 2)),
    line(0, "dut", sample(1, "measure", 3)),
    trial_end(0),
    boot(1, 130),
    trial(1, 140),
    line(1, "dut", {"error": {"object": "o", "step": "s", "reason": "r"}}),
    trial_end(1, "failed", "o: s: r"),
    {"rec": "end", "status": "complete", "t_utc_ns": 150},
]


def test_a_whole_journal_is_a_run() -> None:
    run = parse_journal(WHOLE)
    assert (run.run_id, run.plan_id, run.status, run.created_utc_ns, run.closed_utc_ns) == (
        "r",
        "p",
        "complete",
        100,
        150,
    )
    assert run.skipped == {"d": "no zero-copy"}
    assert [(one.index, one.boot_id) for one in run.boots] == [(0, "b0"), (1, "b1")]
    assert [one.key for one in run.trials] == [TrialKey("c", 0, 0), TrialKey("c", 1, 0)]
    assert [(one.status, one.reason) for one in run.trials] == [("ok", ""), ("failed", "o: s: r")]


def test_lines_go_to_their_trial_and_side() -> None:
    first, second = parse_journal(WHOLE).trials
    assert [one.counters["a.b"] for one in first.dut.samples] == [1, 3]
    assert [one.counters["a.b"] for one in first.tester.samples] == [2]
    assert (second.dut.error, second.dut.samples, second.tester) == ("o: s: r", (), Stream())


@pytest.mark.parametrize("length", range(1, len(WHOLE)))
def test_a_journal_cut_anywhere_is_a_partial_run(length: int) -> None:
    run = parse_journal(WHOLE[:length])
    assert run.status == "partial"
    ended = sum(record["rec"] == "trial_end" for record in WHOLE[:length])
    assert [one.status for one in run.trials][:ended] == ["ok", "failed"][:ended]
    assert all(one.status == "interrupted" for one in run.trials[ended:])
    assert run.closed_utc_ns == max(record.get("t_utc_ns", 0) for record in WHOLE[:length])


def test_an_unfinished_trial_says_why() -> None:
    [one] = parse_journal(WHOLE[:6]).trials
    assert one.reason == "the journal ends within this trial"


@pytest.mark.parametrize("records", [[], WHOLE[1:]], ids=["nothing", "no head"])
def test_a_journal_without_its_head_is_refused(records: list[Json]) -> None:
    with pytest.raises(XdpreproError, match="the journal has no run record") as caught:
        parse_journal(records)
    assert caught.value.status == STORAGE


# What a guest adds


PROFILE: Json = {"packets": 3, "total_insn": 12, "rows": [["veth_poll", "receive", 9], ["user", "generator", 3]]}


def test_what_a_guest_says_is_added_to_its_run() -> None:
    more: list[Json] = [
        {"rec": "document", "name": "console.boot0", "text": "early"},
        {"rec": "document", "name": "console.boot0", "text": "[ 0.000000] Linux"},
        {"rec": "fingerprint", "add": {"guest": {"qemu": "10.0.2"}, "a": {"b": 1}}},
        {"rec": "fingerprint", "add": {"guest": {"accel": "count"}, "a": 2}},
        {"rec": "profile", "slot": 0, "profile": PROFILE},
    ]
    booted = boot(0, 110) | {"port": "igb", "cmdline": "console=ttyS0"}
    run = parse_journal([head(), booted, trial(0, 120), trial_end(0), *more, boot(1, 130), trial(1, 140)])
    assert run.documents == {"suite": "text", "console.boot0": "[ 0.000000] Linux"}
    assert run.fingerprint == {"a": 2, "guest": {"qemu": "10.0.2", "accel": "count"}}
    assert [(one.port, one.cmdline) for one in run.boots] == [("igb", "console=ttyS0"), ("", "")]
    assert [one.profile for one in run.trials] == [parse_profile(PROFILE), None]


def test_merging_changes_neither_tree() -> None:
    first, second = {"a": {"b": {"c": 1}}}, {"a": {"b": {"d": 2}, "e": []}}
    assert merge(first, second) == {"a": {"b": {"c": 1, "d": 2}, "e": []}}
    assert (first, second) == ({"a": {"b": {"c": 1}}}, {"a": {"b": {"d": 2}, "e": []}})


# Profiles


def test_a_profile_goes_to_json_and_back() -> None:
    plain = parse_profile(PROFILE)
    assert plain == Profile(3, (ProfileRow("veth_poll", "receive", 9), ProfileRow("user", "generator", 3)), 12)
    assert not plain.has_memory
    assert format_profile(plain) == PROFILE
    counted = replace(
        plain, rows=(ProfileRow("veth_poll", "receive", 9, 2, 0, 1), ProfileRow("user", "app", 3, 0, 0, 0))
    )
    assert counted.has_memory
    assert parse_profile(json.loads(json.dumps(format_profile(counted)))) == counted


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"packets": -1}, "packets is -1"),
        ({"packets": True}, "packets is True"),
        ({"total_insn": 2**64}, "total_insn is 18446744073709551616"),
        ({"rows": [["f", "receive"]]}, "has not the form of one"),
        ({"rows": [["f", "receive", 1, 1]]}, r"f \(receive\): its counts are"),
        ({"rows": [["f", "receive", 1], ["g", "app", 1, 1, 1, 1]]}, r"f \(receive\): its counts are"),
        ({"rows": [["f", "receive", 1.0]]}, r"f \(receive\): its counts are"),
        ({"rows": [[["f"], "receive", 1]]}, r"a row has the function \['f'\]"),
        ({"rows": [["f", "poll", 1]]}, r"f \(poll\): the side is none of receive, app, generator, rest"),
        ({"rows": [["f", "app", 1], ["f", "rest", 1], ["f", "app", 1]]}, r"f \(app\): has two rows"),
        ({"rows": None}, "has not the form of one"),
    ],
)
def test_what_is_no_profile_is_refused_by_name(change: Json, message: str) -> None:
    with pytest.raises(XdpreproError, match=f"^no profile: .*{message}") as caught:
        parse_profile(PROFILE | change)
    assert caught.value.status == STORAGE

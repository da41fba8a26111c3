# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes on around the packets raises its flag, and no other."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_lab import Agent, Pair, generate_spec, make_pair, measure_spec, run, start_agent
from made_trials import make_run, make_trial

from xdprepro import surroundings, validity
from xdprepro.cases import Case
from xdprepro.sample import Reading, Stream, Trial, TrialKey, parse_stream

DROP = Case("xdp.drop.no-touch")
TX = Case("xdp.tx.swap-macs")
SETTINGS = {"mtu": 1500, "rings.rx": 512, "napi_defer_hard_irqs": 0, "features.rx-gro": 1, "features.tx-gso-list": 1}


def with_source(stream: Stream, source: str, start: Mapping[str, int], end: Mapping[str, int]) -> Stream:
    """The stream with a source more, read two seconds apart."""
    edges = dict(stream.edges)
    for name, at_ns, counters in (("start", 0, start), ("end", 2 * 10**9, end)):
        edges[name] = (*edges[name], Reading(source, at_ns, at_ns + 1, counters))
    return replace(stream, edges=edges)


def with_ready(stream: Stream, **words: Any) -> Stream:
    return replace(stream, ready={**stream.ready, **words})


def dut(trial: Trial, source: str, start: Mapping[str, int], end: Mapping[str, int], **ready: Any) -> Trial:
    return replace(trial, dut=with_ready(with_source(trial.dut, source, start, end), **ready))


def flags_of(*trials: Trial, cases: tuple[Case, ...] = (DROP,)) -> list[tuple[str, ...]]:
    """The flags of each trial of one run."""
    made = make_run(trials, cases)
    return [validity.flag_names(validity.trial_flags(trial, made)) for trial in trials]


# Pause frames


@pytest.mark.parametrize(
    "name", ["rx_pause_ctrl_phy", "port.link_xoff_rx", "tx_flow_control_xon", "rx_pause_frames", "tx_prio0_pause"]
)
@pytest.mark.parametrize("side", ["dut_end", "tester_end"])
def test_pause_frames_of_either_end_are_flagged(name: str, side: str) -> None:
    for count, flags in ((1, ("pause_frames",)), (0, ())):
        ends: dict[str, Any] = {side: {f"ethtool.{name}": count}}
        assert flags_of(make_trial(DROP, **ends)) == [flags]


@pytest.mark.parametrize("name", ["rx_packets_phy", "rx_prio0_pause_duration", "tx_bytes"])
def test_other_counters_are_no_pause_frames(name: str) -> None:
    assert flags_of(make_trial(DROP, dut_end={f"ethtool.{name}": 5})) == [()]


# Interrupts


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("cpu0.36.nvme0q1", ("foreign_irq",)),
        ("cpu0.24.dut0-TxRx-0", ()),
        ("cpu0.25.tester0-TxRx-0", ()),
        ("cpu1.36.nvme0q1", ()),
        ("cpu0.0.timer", ()),
        ("cpu0.11.arch_timer", ()),
        ("cpu0.LOC", ()),
        ("cpu0.RES", ()),
    ],
)
def test_interrupts_of_others_on_a_cpu_that_received_are_flagged(name: str, flags: tuple[str, ...]) -> None:
    trial = dut(make_trial(DROP), "interrupts", {name: 7}, {name: 7 + 201}, irqs=[24])
    trial = replace(trial, tester=with_ready(trial.tester, irqs=[25]))
    assert flags_of(trial) == [flags]


def test_a_few_interrupts_of_others_are_not() -> None:
    assert flags_of(dut(make_trial(DROP), "interrupts", {}, {"cpu0.36.nvme0q1": 200})) == [()]


OTHER_CPUS = {
    Case("stack.local"): {"cpu2": True, "cpu3": False},  # who receives is known by its softirqs
    Case("udp.rxdrop"): {"cpu2": True, "cpu3": True},  # and its application works for it
    Case("xdp.pass.no-touch"): {"cpu2": False, "cpu3": False},
}


@pytest.mark.parametrize("case", OTHER_CPUS, ids=lambda case: case.case)
@pytest.mark.parametrize("cpu", ["cpu2", "cpu3"])
def test_without_a_program_the_cpus_are_those_of_softirqs_and_applications(case: Case, cpu: str) -> None:
    softirqs = {"cpu2.NET_RX": 5000, "cpu3.NET_RX": 3, "cpu3.TIMER": 9000}
    trial = dut(make_trial(case), "softirqs", {}, softirqs)
    trial = dut(trial, "interrupts", {}, {f"{cpu}.36.nvme0q1": 300})
    trial = dut(trial, "msr", {}, {f"{cpu}.aperf": 5, f"{cpu}.mperf": 5})
    params = case.params() | {"cpus": {"apps": [3]}}
    busy = OTHER_CPUS[case][cpu]
    assert bool(surroundings.find_foreign_interrupts(trial, params)) == busy
    assert bool(surroundings.clock_shares(trial.dut, params)) == busy


# Clocks


def at_clock(trial: int, share: float) -> Trial:
    made = make_trial(DROP)
    made = replace(made, key=TrialKey(made.key.case_id, 0, trial))
    ends = {"cpu0.aperf": 10**9 + round(share * 10**9), "cpu0.mperf": 2 * 10**9, "cpu1.aperf": 10**9, "cpu1.mperf": 1}
    return dut(made, "msr", dict.fromkeys(ends, 10**9), ends)


def test_a_trial_at_another_clock_is_flagged() -> None:
    trials = [at_clock(k, share) for k, share in enumerate((1.2, 1.201, 1.2, 1.19, 1.199))]
    assert flags_of(*trials) == [(), (), (), ("freq_unstable",), ()]


def test_without_such_counters_no_clock_is_judged() -> None:
    tsc = dut(make_trial(DROP), "msr", {"cpu0.tsc": 1}, {"cpu0.tsc": 5})
    assert flags_of(tsc) == [()]


# The PMU


@pytest.mark.parametrize(("running_ns", "flags"), [(10**9, ()), (999_999_999, ("pmu_multiplexed",))])
def test_events_that_were_counted_in_turns_are_flagged(running_ns: int, flags: tuple[str, ...]) -> None:
    end = {"cpu1.cycles": 5, "cpu1.enabled_ns": 10**9, "cpu1.running_ns": running_ns}
    assert flags_of(dut(make_trial(DROP), "pmu", {}, end)) == [flags]


# Settings


def test_settings_that_stay_raise_nothing() -> None:
    assert flags_of(dut(make_trial(DROP), "settings", SETTINGS, SETTINGS, settings_found={})) == [()]


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("napi_defer_hard_irqs", ("settings_left",)),
        ("rings.rx", ("settings_left",)),
        ("features.rx-gro", ("settings_left",)),
        ("features.tx-gso-list", ()),  # a program on the peer switches it
    ],
)
@pytest.mark.parametrize("side", ["dut", "tester"])
def test_a_setting_that_changes_meanwhile_is_flagged(name: str, side: str, flags: tuple[str, ...]) -> None:
    trial = make_trial(DROP)
    changed: dict[str, Any] = {side: with_source(getattr(trial, side), "settings", SETTINGS, {**SETTINGS, name: 77})}
    assert flags_of(replace(trial, **changed)) == [flags]


def in_order(*settings: Mapping[str, int], boots: tuple[int, ...] = (0, 0), **ready: Any) -> list[tuple[str, ...]]:
    """The flags of trials of two cases, one after the other."""
    trials = []
    for slot, (case, boot, held) in enumerate(zip((DROP, TX), boots, settings, strict=True)):
        made = dut(make_trial(case), "settings", held, held, settings_found=ready.get(f"found_{slot}", {}))
        trials.append(replace(made, key=TrialKey(case.id, boot, 0), slot=slot))
    return flags_of(*trials, cases=(DROP, TX))


def test_what_an_earlier_trial_left_is_flagged() -> None:
    left = {**SETTINGS, "napi_defer_hard_irqs": 2}
    assert in_order(SETTINGS, left) == [(), ("settings_left",)]
    assert in_order(SETTINGS, left, boots=(0, 1)) == [(), ()]


def test_what_a_trial_sets_for_itself_is_not_left_by_another() -> None:
    own = {**SETTINGS, "napi_defer_hard_irqs": 2}
    assert in_order(SETTINGS, own, found_1={"napi_defer_hard_irqs": 0}) == [(), ()]
    assert in_order(own, SETTINGS, found_0={"napi_defer_hard_irqs": 0}) == [(), ()]
    assert in_order(own, own, found_0={"napi_defer_hard_irqs": 0}) == [(), ("settings_left",)]


def test_what_the_lab_sets_for_a_case_is_left_by_nobody() -> None:
    assert in_order(SETTINGS, {**SETTINGS, "mtu": 9000, "features.rx-gro": 0}) == [(), ()]


# On a port


@pytest.fixture(scope="module")
def pair(agent: Path, root_user: None) -> Iterator[Pair]:
    with make_pair(agent) as made:
        yield made


def record(pair: Pair, change: str, back: str) -> Trial:
    """A trial of which a setting of the DUT's port is changed while packets come."""
    with (
        start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch")) as under_test,
        start_agent(pair, pair.tester, generate_spec(pair, count=1000)) as tester,
    ):
        for agent in (under_test, tester):
            agent.wait_for("ready")
        for agent in (under_test, tester):
            agent.command("go")
        under_test.wait_for("sample")
        run("ip", "netns", "exec", pair.dut, "sh", "-c", change)
        try:
            under_test.wait_for("measured")
            tester.wait_for("stopped")
            under_test.command("stop")
            under_test.wait_for("drained")
            for agent in (tester, under_test):
                agent.command("finish")
                agent.end()
        finally:
            run("ip", "netns", "exec", pair.dut, "sh", "-c", back)
    return Trial(TrialKey(DROP.id, 0, 0), 0, 0, "ok", "", parse(under_test), parse(tester))


def parse(agent: Agent) -> Stream:
    return parse_stream(json.loads(json.dumps(agent.lines)))


@pytest.mark.netns
@pytest.mark.parametrize(
    ("setting", "value"), [("napi_defer_hard_irqs", 2), ("gro_flush_timeout", 20000), ("tx_queue_len", 7)]
)
def test_a_setting_of_a_real_port_that_is_changed_meanwhile(pair: Pair, setting: str, value: int) -> None:
    path = f"/sys/class/net/dut0/{setting}"
    usual = run("ip", "netns", "exec", pair.dut, "cat", path).strip()
    trial = record(pair, f"echo {value} >{path}", f"echo {usual} >{path}")
    changed = surroundings.changed_settings(trial.dut)
    if setting == "tx_queue_len":  # of the stack's queue, which XDP does not use
        assert changed == {}
        return
    assert changed == {setting: (0, value)}
    assert "settings_left" in flags_of(trial)[0]
    assert "settings_left" in validity.excluding(validity.trial_flags(trial, make_run([trial], [DROP])))

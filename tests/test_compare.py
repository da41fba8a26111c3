# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts: each class, each reason for none, and what makes two runs incomparable."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import stdev
from typing import Any

import pytest
from made_counts import INSN, case_id, make_boot, make_counted_run, make_guest_fingerprint
from made_trials import make_case_run, make_fingerprint, make_run, make_trial

from xdprepro import errors
from xdprepro.cases import Case
from xdprepro.comparable import Dimension, Mismatch, check_comparable
from xdprepro.compare import CaseComparison, Comparison, compare
from xdprepro.intervals import minimum_detectable_effect, welch_interval
from xdprepro.sample import Run, Trial, flatten
from xdprepro.view import case_rates, view_run

DROP = Case("xdp.drop.no-touch")
READ = Case("xdp.drop.read-data")
PASS = Case("xdp.pass.no-touch")
TX = Case("xdp.tx.swap-macs")

QUIET = (100.0, 100.1, 99.9, 100.05, 99.95)
NOISY = (100.0, 103.0, 97.0, 101.0, 99.0)


def shifted(values: Sequence[float], factor: float) -> list[float]:
    return [value * factor for value in values]


def compare_ns(a: Sequence[float], b: Sequence[float], **options: Any) -> Comparison:
    runs = make_case_run(DROP, a, run_id="a"), make_case_run(DROP, b, run_id="b")
    return compare_runs(*runs, **options)


def compare_runs(a: Run, b: Run, **options: Any) -> Comparison:
    return compare(view_run(a), view_run(b), **options)


def only(comparison: Comparison) -> CaseComparison:
    [case] = comparison.timed
    return case


# Figures


def test_figures_are_those_of_the_restart_means() -> None:
    b = shifted(QUIET[:3], 1.03)
    case = only(compare_ns(QUIET, b, level=0.9))
    wanted = welch_interval(QUIET, b, level=0.9)
    assert case.delta_ns is not None
    assert case.delta_pct is not None
    assert case.mde_pct is not None
    assert (case.delta_ns.delta, case.delta_ns.low, case.delta_ns.high) == pytest.approx(
        (wanted.delta, wanted.low, wanted.high), rel=1e-5
    )
    assert case.delta_pct.delta == pytest.approx(3.0, abs=1e-3)
    wanted_mde = minimum_detectable_effect(5, 3, sd_a=stdev(QUIET), sd_b=stdev(b), alpha=0.1)
    # Around 100 ns, ns and percent are the same number; the margin of 0.5 % comes on top.
    assert (case.mde_ns, case.mde_pct) == pytest.approx((wanted_mde + 0.5, wanted_mde + 0.5), rel=1e-3)


def test_trials_of_a_restart_are_one_value() -> None:
    trials = [make_trial(DROP, boot=0, trial=n, ns=ns) for n, ns in enumerate((90.0, 110.0))]
    trials += [make_trial(DROP, boot=1, ns=101.0)]
    rates = case_rates(view_run(make_run(trials, [DROP])), DROP.id)
    assert (rates.boots, rates.trials) == ((0, 1), 3)
    assert rates.ns == pytest.approx([100.0, 101.0])


def test_pps_is_packets_over_time() -> None:
    trials = [make_trial(DROP, boot=boot, ns=ns) for boot, ns in enumerate((50.0, 150.0))]
    assert case_rates(view_run(make_run(trials, [DROP])), DROP.id).pps == pytest.approx(10e6)


# Verdicts


def test_slower_beyond_the_margin_is_regressed() -> None:
    comparison = compare_ns(QUIET, shifted(QUIET, 1.03))
    assert only(comparison).verdict == "REGRESSED"
    assert comparison.status == errors.REGRESSED == 3


def test_faster_beyond_the_margin_is_improved() -> None:
    comparison = compare_ns(shifted(QUIET, 1.03), QUIET)
    assert only(comparison).verdict == "IMPROVED"
    assert comparison.status == 0


def test_within_the_margin_is_equivalent() -> None:
    comparison = compare_ns(QUIET, shifted(QUIET, 1.001))
    assert only(comparison).verdict == "EQUIVALENT"
    assert comparison.status == 0


def test_a_clear_change_smaller_than_the_margin_is_equivalent() -> None:
    comparison = compare_ns(QUIET, shifted(QUIET, 1.03), margin_pct=5)
    case = only(comparison)
    assert case.delta_ns is not None
    assert case.delta_ns.p < 1e-6
    assert case.verdict == "EQUIVALENT"


def test_noise_that_hides_the_answer_is_inconclusive() -> None:
    comparison = compare_ns(NOISY, shifted(NOISY, 1.01))
    case = only(comparison)
    assert case.verdict == "INCONCLUSIVE"
    assert case.reason.startswith("needs ")
    assert comparison.status == errors.UNDECIDED == 4


def test_inconclusive_says_how_many_more_restarts() -> None:
    case = only(compare_ns(NOISY, shifted(NOISY, 1.03)))
    assert case.verdict == "INCONCLUSIVE"
    assert case.more_restarts is not None
    assert case.reason == f"needs about {case.more_restarts} more restarts"
    # The effect beyond the margin is about 2.5 ns and the spread about 2.25: a tenth more than one spread.
    assert 20 <= case.more_restarts <= 28


def test_inconclusive_says_when_it_is_hopeless() -> None:
    very_noisy = (100.0, 160.0, 40.0, 130.0, 70.0)
    case = only(compare_ns(very_noisy, very_noisy))
    assert case.more_restarts is None
    assert case.reason == "needs more than 1000 restarts"


@pytest.mark.parametrize(("a", "b"), [([100.0], [100.0]), ([100.0], QUIET), (QUIET, [130.0])])
def test_one_restart_gives_no_verdict(a: Sequence[float], b: Sequence[float]) -> None:
    case = only(compare_ns(a, b))
    assert (case.verdict, case.delta_ns, case.mde_ns, case.p_adjusted) == ("INCONCLUSIVE", None, None, None)
    assert case.reason == "one restart has no spread"


def test_two_restarts_may_give_a_verdict() -> None:
    assert only(compare_ns((100.0, 100.01), (120.0, 120.01))).verdict == "REGRESSED"


def test_exact_figures_need_no_spread() -> None:
    same, other = (100.0, 100.0, 100.0), (101.0, 101.0)
    assert only(compare_ns(same, same)).verdict == "EQUIVALENT"
    assert only(compare_ns(same, other)).verdict == "REGRESSED"
    assert only(compare_ns(same, other)).mde_ns == pytest.approx(0.5)  # the margin


def test_a_change_that_one_case_in_many_shows_by_chance_is_inconclusive() -> None:
    # At this level the interval of the first case lies beyond the margin, with p near 0.03.
    before, after = (100.0, 101.5, 98.5, 100.5, 99.5), (101.5, 104.5, 102.0, 105.5, 101.0)
    cases = [DROP, READ, PASS, TX]
    a = make_run(trials_of(dict.fromkeys(cases, before)), cases, run_id="a")
    b_values = dict.fromkeys(cases, before) | {DROP: after}
    b = make_run(trials_of(b_values), cases, run_id="b")
    alone = only(compare_ns(before, after, level=0.8))
    assert alone.verdict == "REGRESSED"
    first = compare_runs(a, b, level=0.8).timed[0]
    assert first.delta_ns is not None
    assert first.p_adjusted == pytest.approx(4 * first.delta_ns.p)
    assert first.verdict == "INCONCLUSIVE"
    assert first.reason.startswith("not significant among all cases, needs ")


def trials_of(ns: Mapping[Case, Sequence[float]]) -> list[Trial]:
    return [make_trial(case, boot=boot, ns=one) for case, values in ns.items() for boot, one in enumerate(values)]


def test_improved_and_regressed_are_counted() -> None:
    cases = [DROP, READ, PASS]
    a = make_run(trials_of(dict.fromkeys(cases, QUIET)), cases, run_id="a")
    changes = {DROP: 1.05, READ: 1.06, PASS: 0.9}
    b = make_run(trials_of({case: shifted(QUIET, factor) for case, factor in changes.items()}), cases, run_id="b")
    comparison = compare_runs(a, b)
    assert (comparison.count("REGRESSED"), comparison.count("IMPROVED")) == (2, 1)
    assert comparison.status == errors.REGRESSED


# Excluded


def test_an_excluded_trial_does_not_count() -> None:
    good = [make_trial(DROP, boot=boot, ns=ns) for boot, ns in enumerate(QUIET)]
    bad = make_trial(DROP, boot=0, trial=1, ns=500.0, tester_end={"generator.cpu1.packets": 1})
    b = make_run([*good, bad], [DROP], run_id="b")
    case = only(compare_runs(make_case_run(DROP, QUIET), b))
    assert case.verdict == "EQUIVALENT"
    assert case.b.excluded == ((bad, ("loss_open",)),)


def test_a_case_without_a_usable_trial_is_excluded_with_the_reason() -> None:
    bad = [make_trial(DROP, boot=boot, tester_end={"generator.cpu1.packets": 1}) for boot in range(3)]
    comparison = compare_runs(make_case_run(DROP, QUIET), make_run(bad, [DROP], run_id="b"))
    assert only(comparison).verdict == "EXCLUDED"
    assert only(comparison).reason == "B: all 3 trials excluded: loss_open"
    assert comparison.status == errors.UNDECIDED


def test_a_case_that_was_never_measured_is_excluded() -> None:
    comparison = compare_runs(make_run([], [DROP], run_id="a"), make_case_run(DROP, QUIET, run_id="b"))
    assert only(comparison).reason == "A: no trial"


def test_a_case_skipped_in_one_run_is_excluded_with_the_reason() -> None:
    a = make_case_run(DROP, QUIET)
    b = make_run([], [], run_id="b", skipped={DROP.id: "no native XDP"})
    comparison = compare_runs(a, b)
    assert only(comparison).reason == "B: skipped: no native XDP"
    assert comparison.status == errors.UNDECIDED


def test_a_case_skipped_in_both_runs_is_not_compared() -> None:
    skipped = {TX.id: "no native XDP"}
    a = make_case_run(DROP, QUIET, skipped=skipped)
    b = make_case_run(DROP, QUIET, run_id="b", skipped=skipped)
    comparison = compare_runs(a, b)
    assert only(comparison).case_id == DROP.id
    assert comparison.status == 0


def test_cases_of_one_run_only_are_named() -> None:
    a, b = make_case_run(DROP, QUIET), make_case_run(TX, QUIET, run_id="b")
    comparison = compare_runs(a, b)
    assert (comparison.cases, comparison.only_a, comparison.only_b) == ((), (DROP.id,), (TX.id,))


def test_nothing_in_common_decides_nothing() -> None:
    comparison = compare_runs(make_case_run(DROP, QUIET), make_case_run(TX, QUIET, run_id="b"))
    assert comparison.status == errors.UNDECIDED


def test_a_regression_outweighs_what_is_undecided() -> None:
    cases = [DROP, READ]
    a = make_run(trials_of({DROP: QUIET, READ: NOISY}), cases)
    b = make_run(trials_of({DROP: shifted(QUIET, 1.05), READ: NOISY}), cases, run_id="b")
    comparison = compare_runs(a, b)
    assert [case.verdict for case in comparison.cases] == ["REGRESSED", "INCONCLUSIVE"]
    assert comparison.status == errors.REGRESSED


# Design and usage


@pytest.mark.parametrize(("plan_id", "design"), [("plan", "interleaved"), ("other", "unpaired")])
def test_design_is_interleaved_when_both_share_a_plan(plan_id: str, design: str) -> None:
    comparison = compare_runs(make_case_run(DROP, QUIET), make_case_run(DROP, QUIET, run_id="b", plan_id=plan_id))
    assert comparison.design == design


@pytest.mark.parametrize("margin_pct", [0.0, 0.49, -1.0, float("nan")])
def test_a_margin_below_what_code_layout_does_is_refused(margin_pct: float) -> None:
    with pytest.raises(errors.XdpreproError, match="is below 0.5 %") as caught:
        compare_ns(QUIET, QUIET, margin_pct=margin_pct)
    assert caught.value.status == errors.USAGE


def test_a_run_is_not_compared_with_itself() -> None:
    run = make_case_run(DROP, QUIET)
    with pytest.raises(errors.XdpreproError, match="are the same run a") as caught:
        compare_runs(run, run)
    assert caught.value.status == errors.USAGE


# Comparable


def runs_with(**changes: Any) -> tuple[Run, Run]:
    return make_case_run(DROP, QUIET), make_case_run(
        DROP, shifted(QUIET, 1.05), run_id="b", fingerprint=make_fingerprint(**changes)
    )


SERIOUS: dict[str, Any] = {
    "host__host_key": "h2",
    "host__cpu_model": "other",
    "host__cpus": 4,
    "host__microcode": "0x2",
    "host__hypervisor": True,
    "kernel__cmdline": "BOOT_IMAGE=/vmlinuz-6.12.1 root=/dev/vda mitigations=off",
    "kernel__mitigations__retbleed": "Vulnerable",
    "cpu__governor": "powersave",
    "dut__port__driver": "atlantic",
    "tester__port__driver": "atlantic",
    "dut__port__mtu": 9000,
    "dut__port__rx_queues": 4,
    "dut__port__channels__rx": 4,
    "agent__bpf__xdp_drop_no_touch": "bb",
    "agent__built_from__libbpf": "1.5",
    "lab__queues": 1,
    "lab__mtu": 9000,
}


@pytest.mark.parametrize("key", SERIOUS)
def test_a_serious_difference_is_incomparable_unless_allowed(key: str) -> None:
    runs = runs_with(**{key: SERIOUS[key]})
    refused = compare_runs(*runs)
    assert [one.key for one in refused.mismatches if one.serious] == [key.replace("__", ".")]
    case = only(refused)
    assert (case.verdict, case.delta_ns) == ("INCOMPARABLE", None)
    assert refused.status == errors.UNDECIDED
    allowed = compare_runs(*runs, allow_confounded=True)
    assert only(allowed).verdict == "REGRESSED"
    assert allowed.mismatches == refused.mismatches


# A kernel may know what the other does not; the tables of one machine grow from release to release.
SHOWN: dict[str, Any] = {
    "kernel__mitigations__ghostwrite": "Not affected",
    "cpu__turbo": "on",
    "sysctl__net.core.dev_weight": "32",
    "dut__port__firmware": "9.2",
    "dut__port__rings__rx": 512,
    "dut__port__features__rx-new": False,
    "kernel__release": "6.13.0",
    "kernel__config_sha256": "c2",
    "tools__numpy": "2.1",
    "checkout__git_commit": "def",
    "checkout__dirty": True,
    "dut__port__features__rx-gro": True,
    "lab__name": "veth2",
    "agent__cases__xdp.new__role": "sink",
    "agent__bpf__xdp_new": "cc",
}


@pytest.mark.parametrize("key", SHOWN)
def test_what_may_differ_is_shown_and_not_refused(key: str) -> None:
    comparison = compare_runs(*runs_with(**{key: SHOWN[key]}))
    assert [(one.key, one.serious) for one in comparison.mismatches] == [(key.replace("__", "."), False)]
    assert only(comparison).verdict == "REGRESSED"


@pytest.mark.parametrize(
    "changes",
    [
        {"kernel__boot_id": "b2"},
        {"host__memory_bytes": 2**34 - 2**20},
        {"agent__markers__open": "0x40e210"},
        {"kernel__mitigations__retbleed": "Mitigation: worded otherwise"},
        {"dut__port__ifindex": 9},
        {"dut__port__mac": "02:00:00:00:00:02"},
        {"absent__cpu.turbo": "not shown"},
        {"dut__port__kernel__release": "6.13.0"},
        {"kernel__cmdline": "BOOT_IMAGE=/vmlinuz-6.13.0 root=/dev/vda"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_always_differs_is_not_shown(changes: dict[str, Any]) -> None:
    assert check_comparable(*runs_with(**changes)) == ()


def test_identical_fingerprints_have_no_mismatch() -> None:
    assert check_comparable(*runs_with()) == ()


def test_what_only_one_run_knows_is_a_difference() -> None:
    a, b = runs_with(cpu__turbo="on")
    assert check_comparable(a, b) == (Mismatch("cpu.turbo", None, "on", serious=False),)
    assert check_comparable(b, a) == (Mismatch("cpu.turbo", "on", None, serious=False),)


@pytest.mark.parametrize("allow_confounded", [False, True])
def test_kinds_of_lab_are_never_compared(allow_confounded: bool) -> None:
    a = make_case_run(DROP, QUIET)
    b = make_case_run(DROP, QUIET, run_id="b", lab_kind="vm", fingerprint=make_fingerprint(lab__kind="vm"))
    comparison = compare_runs(a, b, allow_confounded=allow_confounded)
    assert only(comparison).verdict == "INCOMPARABLE"
    assert comparison.status == errors.UNDECIDED


def test_the_kind_of_lab_is_that_of_the_run_whatever_the_fingerprint_says() -> None:
    a, b = make_case_run(DROP, QUIET), make_case_run(DROP, QUIET, run_id="b", lab_kind="vm")
    assert only(compare_runs(a, b, allow_confounded=True)).verdict == "INCOMPARABLE"


def test_serious_differences_come_first() -> None:
    found = check_comparable(*runs_with(tools__numpy="2.1", cpu__governor="powersave", checkout__dirty=True))
    assert [one.key for one in found] == ["cpu.governor", "checkout.dirty", "tools.numpy"]


def test_another_parameter_makes_only_that_case_incomparable() -> None:
    trials = trials_of({DROP: QUIET, READ: QUIET})
    a = make_run(trials, [DROP, READ])
    b = make_run(trials, [DROP, READ], run_id="b")
    b = replace(b, cases={**b.cases, READ.id: {**b.cases[READ.id], "measure_s": 2.0}})
    comparison = compare_runs(a, b)
    assert comparison.mismatches == (Mismatch("measure_s", 1.0, 2.0, serious=True, case_id=READ.id),)
    assert [case.verdict for case in comparison.cases] == ["EQUIVALENT", "INCOMPARABLE"]
    assert comparison.status == errors.UNDECIDED


def test_another_generator_makes_the_case_incomparable() -> None:
    def with_generator(trial: Trial, generator: str) -> Trial:
        return replace(trial, tester=replace(trial.tester, ready={"generator": {"generator": generator}}))

    a = make_case_run(DROP, QUIET)
    b = make_case_run(DROP, QUIET, run_id="b")
    b = replace(b, trials=tuple(with_generator(trial, "af-packet") for trial in b.trials))
    comparison = compare_runs(a, b)
    wanted = Mismatch("generator used", "live-frames", "af-packet", serious=True, case_id=DROP.id)
    assert comparison.mismatches == (wanted,)
    assert only(comparison).verdict == "INCOMPARABLE"


def test_other_cpus_make_the_case_incomparable() -> None:
    a, b = (make_case_run(DROP, QUIET, run_id=run_id) for run_id in "ab")
    a, b = (
        replace(run, cases={DROP.id: {**run.cases[DROP.id], "cpus": {"sampler": cpu}}}) for run, cpu in ((a, 0), (b, 1))
    )
    assert [one.key for one in check_comparable(a, b)] == ["cpus.sampler"]


def test_flatten_joins_keys_with_dots() -> None:
    assert flatten({"a": {"b": 1, "c": {"d": [1, 2]}}, "e": None}) == {"a.b": 1, "a.c.d": [1, 2], "e": None}


def test_a_level_that_few_restarts_cannot_carry_has_an_infinite_interval() -> None:
    case = only(compare_ns((1e-3, 1e3), (2e-3, 2e3), level=0.9999))
    assert case.delta_pct is not None
    assert case.delta_pct.high == float("inf")
    assert case.verdict == "INCONCLUSIVE"


def test_a_case_of_a_newer_version_is_skipped_with_the_reason() -> None:
    run = make_case_run(DROP, QUIET)
    newer = replace(run, run_id="b", cases={DROP.id: {**run.cases[DROP.id], "case": "xdp.cpumap.no-touch"}})
    assert view_run(newer).trials == ()
    case = only(compare_runs(run, newer))
    assert case.verdict == "EXCLUDED"
    assert "this version of xdprepro has no case xdp.cpumap.no-touch" in case.reason


# Runs of guests


def guests(*, config_a: str = "", config_b: str = "", **changes: Any) -> tuple[Run, Run]:
    """Two counted runs of guests; `changes` are of the fingerprint of B, whose figure is one instruction larger."""
    runs = [
        make_counted_run(
            make_boot(DROP, costs), [DROP], run_id=run_id, documents={"kernel_config": config} if config else {}
        )
        for run_id, costs, config in (("a", INSN, config_a), ("b", {**INSN, ("new_check", "receive"): 1}, config_b))
    ]
    return runs[0], replace(runs[1], fingerprint=make_guest_fingerprint("veth", **changes))


KERNEL: dict[str, Any] = {"kernel__release": "6.13.0", "kernel__image_sha256": "i2", "kernel__build_id": "d2"}
CMDLINE: dict[str, Any] = {"kernel__cmdline": "mitigations=off"}
CPU: dict[str, Any] = {"guest__cpu": "Skylake-Server"}
CONFIG = "CONFIG_NET=y\nCONFIG_BPF_JIT=y\nCONFIG_SND=m\n# CONFIG_KASAN is not set\n"


def verdict(comparison: Comparison) -> str:
    [case] = comparison.cases
    return case.verdict


@pytest.mark.parametrize(
    ("changes", "name", "a", "b"),
    [
        (KERNEL, "kernel", "6.12.1", "6.13.0"),
        ({"kernel__image_sha256": "i2", "kernel__build_id": "d2"}, "kernel", "d1", "d2"),
        (CMDLINE, "command line", "", "mitigations=off"),
        (CPU, "CPU model", "max", "Skylake-Server"),
    ],
)
def test_kernel_command_line_and_cpu_are_compared_one_at_a_time(
    changes: dict[str, Any], name: str, a: str, b: str
) -> None:
    runs = guests(config_a=CONFIG, config_b=CONFIG, **changes)
    comparison = compare_runs(*runs)
    assert comparison.dimensions == (Dimension(name, a, b),)
    assert [one.key for one in comparison.mismatches if one.serious] == []
    assert verdict(comparison) == "REGRESSED"


@pytest.mark.parametrize(
    ("changes", "key"),
    [(KERNEL | CMDLINE, "kernel.cmdline"), (KERNEL | CPU, "guest.cpu"), (CMDLINE | CPU, "guest.cpu")],
)
def test_two_of_them_at_once_confound(changes: dict[str, Any], key: str) -> None:
    runs = guests(config_a=CONFIG, config_b=CONFIG, **changes)
    comparison = compare_runs(*runs)
    assert [one.key for one in comparison.mismatches if one.serious] == [key]
    assert verdict(comparison) == "INCOMPARABLE"
    assert comparison.cases[0].reason == f"the runs differ in more than the {comparison.dimensions[0].name}"
    assert verdict(compare_runs(*runs, allow_confounded=True)) == "REGRESSED"


def test_one_kernel_against_itself_is_compared_in_nothing() -> None:
    comparison = compare_runs(*guests())
    assert (comparison.dimensions, comparison.mismatches) == ((), ())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("guest__qemu", "11.0"),
        ("guest__machine", "pc"),
        ("guest__memory_mib", 512),
        ("guest__plugin_sha256", "p2"),
        ("kernel__compiler", "gcc 14"),
        ("agent__bpf__xdp_drop_no_touch", "bb"),
        ("lab__queues", 2),
    ],
)
def test_what_emulates_and_what_compiled_must_be_the_same(key: str, value: Any) -> None:
    comparison = compare_runs(*guests(config_a=CONFIG, config_b=CONFIG, **KERNEL | {key: value}))
    assert [one.key for one in comparison.mismatches if one.serious] == [key.replace("__", ".")]
    assert verdict(comparison) == "INCOMPARABLE"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("host__host_key", "h2"),
        ("host__cpu_model", "other"),
        ("host__cpus", 64),
        ("kernel__mitigations__retbleed", "Vulnerable"),
    ],
)
def test_the_machine_that_counted_does_not_matter(key: str, value: Any) -> None:
    comparison = compare_runs(*guests(**{key: value}))
    assert [(one.key, one.serious) for one in comparison.mismatches] == [(key.replace("__", "."), False)]
    assert verdict(comparison) == "REGRESSED"


def test_counts_and_rates_of_guests_are_never_compared() -> None:
    comparison = compare_runs(*guests(guest__accel="kvm"), allow_confounded=True)
    assert verdict(comparison) == "INCOMPARABLE"


@pytest.mark.parametrize(("accel", "emulated"), [("tcg", True), ("kvm", False)])
def test_times_of_an_emulated_processor_get_no_verdict(accel: str, emulated: bool) -> None:
    """Not even when what confounds is allowed: it is the emulator's speed. A real processor's guest is judged."""
    finger = make_guest_fingerprint("veth", guest__accel=accel)
    runs = [
        make_case_run(DROP, ns, run_id=run_id, fingerprint=finger | {"dut": {"port": {}}, "tester": {"port": {}}})
        for run_id, ns in (("a", QUIET), ("b", shifted(QUIET, 1.03)))
    ]
    case = only(compare_runs(*runs, allow_confounded=True))
    assert (case.verdict, case.delta_ns is None) == (("INCOMPARABLE", True) if emulated else ("REGRESSED", False))
    assert ("a processor was emulated" in case.reason) == emulated


def test_a_count_and_a_rate_are_never_compared() -> None:
    a = guests()[0]
    rates = make_case_run(DROP, QUIET, run_id="b")
    timed = replace(rates, cases={case_id(DROP): rates.cases[DROP.id]})
    assert verdict(compare_runs(a, timed, allow_confounded=True)) == "INCOMPARABLE"


def test_a_configuration_of_another_choice_confounds() -> None:
    other = CONFIG.replace("# CONFIG_KASAN is not set", "CONFIG_KASAN=y")
    runs = guests(config_a=CONFIG, config_b=other, kernel__config_sha256="c2", **KERNEL)
    comparison = compare_runs(*runs)
    assert comparison.config is not None
    assert [one.symbol for one in comparison.config.changed] == ["KASAN"]
    assert [one.key for one in comparison.mismatches if one.serious] == ["kernel.config_sha256"]
    assert verdict(comparison) == "INCOMPARABLE"
    assert verdict(compare_runs(*runs, allow_confounded=True)) == "REGRESSED"


def test_symbols_that_come_with_the_version_do_not_confound() -> None:
    runs = guests(config_a=CONFIG, config_b=CONFIG + "CONFIG_NEW=y\n", kernel__config_sha256="c2", **KERNEL)
    comparison = compare_runs(*runs)
    assert comparison.config is not None
    assert [one.symbol for one in comparison.config.version_bound] == ["NEW"]
    assert verdict(comparison) == "REGRESSED"


@pytest.mark.parametrize(("config_a", "config_b"), [("", ""), (CONFIG, ""), ("", CONFIG)])
def test_another_kernel_of_unknown_configuration_confounds(config_a: str, config_b: str) -> None:
    comparison = compare_runs(*guests(config_a=config_a, config_b=config_b, **KERNEL))
    assert comparison.config is None
    assert [one.key for one in comparison.mismatches if one.serious] == ["kernel.config_sha256"]


def test_a_port_that_differs_concerns_only_its_own_cases() -> None:
    trials = [*make_boot(DROP), *make_boot(DROP, port="igb", boot=1)]
    run = make_counted_run(trials, [DROP])
    igb = make_counted_run(trials, [DROP], port="igb")
    a = replace(run, cases={**run.cases, **igb.cases}, fingerprint=make_guest_fingerprint("veth", "igb"))
    b = replace(a, run_id="b", fingerprint=make_guest_fingerprint("veth", "igb", ports__igb__dut={"driver": "other"}))
    comparison = compare_runs(a, b)
    assert {one.key for one in comparison.mismatches if one.serious} >= {"ports.igb.dut.driver"}
    assert {case.case_id: case.verdict for case in comparison.cases} == {
        case_id(DROP): "EQUIVALENT",
        case_id(DROP, "igb"): "INCOMPARABLE",
    }


def test_a_port_of_one_run_only_is_no_difference() -> None:
    a, b = guests()
    more = replace(b, fingerprint=make_guest_fingerprint("veth", "igb"))
    assert check_comparable(a, more) == ()


def test_another_generator_of_a_counted_case_is_incomparable() -> None:
    a, b = guests()
    b = replace(b, cases={key: {**params, "generator": "af-packet"} for key, params in b.cases.items()})
    comparison = compare_runs(a, b)
    assert [one.key for one in comparison.mismatches] == ["generator"]
    assert verdict(comparison) == "INCOMPARABLE"


def test_a_run_on_the_machine_is_compared_in_no_dimension_of_guests() -> None:
    runs = make_case_run(DROP, QUIET), make_case_run(DROP, QUIET, run_id="b")
    assert compare_runs(*runs).dimensions == ()

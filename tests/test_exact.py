# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions per packet: the figure, what boots disagree in, the bound and the verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from made_counts import (
    FIGURE,
    INSN,
    ONCE,
    WINDOWS,
    add_memory,
    case_id,
    make_boot,
    make_counted_run,
    make_guest_fingerprint,
    make_profile,
    make_window,
)
from made_trials import make_case_run

from xdprepro import bench, errors, validity
from xdprepro.cases import Case
from xdprepro.compare import Comparison, compare
from xdprepro.costs import count_costs
from xdprepro.exact import MIN_BOUND, CaseCounts, CountComparison, Place, case_counts, fold_function, is_exact
from xdprepro.explain import find_changes
from xdprepro.sample import Run, Trial
from xdprepro.view import view_run, why_no_figure

DROP = Case("xdp.drop.no-touch")
READ = Case("xdp.drop.read-data")
XSK = Case("xsk.rxdrop", bind_mode="copy", wakeup="poll", xsk_batch=64, xsk_ring_rx=2048)
RCV = ("veth_xdp_rcv_one.constprop.0 [veth]", "receive")
SEND = ("xdp_do_redirect", "generator")

Costs = Mapping[tuple[str, str], float]


def more(place: tuple[str, str], insn: float) -> Costs:
    """INSN with more instructions in one place."""
    return {**INSN, place: INSN.get(place, 0) + insn}


def count(trials: Sequence[Trial], case: Case = DROP) -> CaseCounts:
    return case_counts(view_run(make_counted_run(trials, [case])), case_id(case))


def counted(costs: Costs = INSN, *, run_id: str = "a", **changes: Any) -> Run:
    return make_counted_run(make_boot(DROP, costs), [DROP], run_id=run_id, **changes)


def compare_runs(a: Run, b: Run, **options: Any) -> Comparison:
    return compare(view_run(a), view_run(b), **options)


def compare_costs(costs: Costs, **options: Any) -> CountComparison:
    return only(compare_runs(counted(), counted(costs, run_id="b"), **options))


def only(comparison: Comparison) -> CountComparison:
    [case] = comparison.counted
    return case


# The figure


def test_what_a_send_costs_once_cancels() -> None:
    found = count(make_boot(DROP))
    assert found.figure == FIGURE
    assert (found.on("receive"), found.on("generator"), found.on("rest")) == (FIGURE, 128, 1)
    assert found.boots[0].once["receive"] == 300
    assert found.boots[0].once["generator"] == 9000


def test_of_several_short_windows_the_last_counts() -> None:
    filling = make_profile(WINDOWS[0], once={**ONCE, ("allocate_slab", "receive"): 400_000})
    short, long = make_boot(DROP)
    trials = [
        replace(short, profile=filling),
        *(replace(one, key=one.key._replace(trial=n)) for n, one in ((1, short), (2, long))),
    ]
    assert count(trials).figure == FIGURE


def test_one_window_would_not_cancel_it() -> None:
    profile = make_profile(WINDOWS[0])
    assert sum(row.insn for row in profile.rows if row.side == "receive") / profile.packets > FIGURE


def test_the_application_is_part_of_the_figure_of_a_socket_only() -> None:
    costs = {**INSN, ("user", "app"): 25}
    assert count(make_boot(XSK, costs), XSK).figure == FIGURE + 25
    assert count(make_boot(DROP, costs)).figure == FIGURE


def test_sides_add_up_to_the_total_of_the_plugin() -> None:
    trials = make_boot(DROP)
    totals = [trial.profile.total_insn for trial in trials if trial.profile]
    found = count(trials).on("receive", "app", "generator", "rest")
    assert found == (totals[1] - totals[0]) / (WINDOWS[1] - WINDOWS[0])


def test_a_function_of_one_window_only_counts() -> None:
    short, long = make_boot(DROP)
    assert long.profile is not None
    late = make_profile(WINDOWS[1], once={**ONCE, ("kswapd", "rest"): 80_000})
    assert count([short, replace(long, profile=late)]).places[Place("kswapd", "rest")].insn == 2.0


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("veth_poll", "veth_poll"),
        ("veth_poll [veth]", "veth_poll"),
        ("igb_clean_rx_irq.cold [igb]", "igb_clean_rx_irq"),
        ("veth_xdp_rcv_one.constprop.0.isra.0 [veth]", "veth_xdp_rcv_one"),
        ("page_pool_alloc.part.3.cold", "page_pool_alloc"),
        ("xsk_rcv.llvm.123456", "xsk_rcv"),
        ("bpf_prog_e1221763e87ade11_xdp_drop_no_tou [bpf]", "bpf_prog_xdp_drop_no_tou"),
        ("bpf:xdp_drop_no_tou (dut)", "bpf:xdp_drop_no_tou (dut)"),
        ("bpf_dispatcher_xdp_func", "bpf_dispatcher_xdp_func"),
        (".cold", ".cold"),
    ],
)
def test_parts_and_clones_are_their_function(name: str, function: str) -> None:
    assert fold_function(name) == function


def test_folded_functions_are_added_up() -> None:
    assert count(make_boot(DROP)).places[Place("veth_xdp_rcv_one", "receive")].insn == 83


def test_a_memory_pass_counts_loads_stores_and_lines() -> None:
    trials = [replace(one, profile=add_memory(one.profile)) for one in make_boot(DROP) if one.profile]
    found = count(trials)
    assert found.has_memory
    assert found.places[Place("veth_poll", "receive")] == (100, 40, 20, 10)
    assert not count(make_boot(DROP)).has_memory


def test_a_case_without_both_windows_has_no_figure() -> None:
    short, long = make_boot(DROP)
    for trials in ([short], [long], [short, make_window(DROP, None, number=1)]):
        run = make_counted_run(trials, [DROP])
        assert case_counts(view_run(run), case_id(DROP)).figure is None
        assert why_no_figure(view_run(run), case_id(DROP)) == "no boot has a usable short and a usable long window"


def test_a_step_costs_the_difference_of_two_cases() -> None:
    trials = [*make_boot(DROP), *make_boot(READ, more(("bpf:xdp_drop_no_tou (dut)", "receive"), 7))]
    [cost] = count_costs(view_run(make_counted_run(trials, [DROP, READ])))
    assert (cost.name, cost.delta_insn) == ("read the Ethernet header", 7)
    assert cost.bound == (0.5, "half an instruction")


def test_a_step_is_as_sure_as_the_boots_of_its_cases_agree() -> None:
    other = make_boot(READ, more(("bpf:xdp_drop_no_tou (dut)", "receive"), 9), boot=1)
    trials = [*make_boot(DROP), *make_boot(READ, more(("bpf:xdp_drop_no_tou (dut)", "receive"), 7)), *other]
    [cost] = count_costs(view_run(make_counted_run(trials, [DROP, READ])))
    assert (cost.delta_insn, cost.bound) == (8, (2, f"the boots of {case_id(READ)} differ by as much"))


def test_a_step_to_a_socket_is_counted_though_its_time_is_not() -> None:
    steps = [(one.without, one.with_) for one in count_costs(view_run(make_counted_run(make_boot(DROP), [DROP, XSK])))]
    assert steps == [(case_id(DROP), case_id(XSK))]


def test_a_step_without_a_figure_says_whose() -> None:
    run = make_counted_run(make_boot(DROP), [DROP, READ])
    [cost] = count_costs(view_run(run))
    assert (cost.delta_insn, cost.note) == (None, f"no figure of {case_id(READ)}")


# Trials


def flags_of(trial: Trial) -> tuple[str, ...]:
    run = make_counted_run([trial], [DROP])
    return validity.flag_names(view_run(run).trials[0].flags)


def test_a_counted_trial_needs_no_samples_and_has_no_rate() -> None:
    trial = make_boot(DROP)[0]
    still = replace(trial, dut=replace(trial.dut, samples=()))
    assert flags_of(still) == ()
    view = view_run(make_counted_run([still], [DROP]))
    assert view.trials[0].rate is None
    assert is_exact(view)


def test_a_timed_run_is_not_exact() -> None:
    assert not is_exact(view_run(make_case_run(DROP, [100.0])))


def test_time_of_others_does_not_matter_to_a_count() -> None:
    shared = {"proc_stat.cpu0.user": 900, "proc_stat.cpu0.steal": 900}
    assert flags_of(make_window(DROP, make_profile(WINDOWS[0]), dut_end=shared)) == ()


def test_a_trial_without_its_counts_is_excluded() -> None:
    assert flags_of(make_window(DROP, None)) == ("no_count",)


def test_counts_that_do_not_add_up_are_excluded() -> None:
    profile = make_profile(WINDOWS[0])
    assert flags_of(make_window(DROP, replace(profile, total_insn=profile.total_insn + 1))) == ("no_count",)


def test_a_packet_outside_the_window_opens_the_balance() -> None:
    trial = make_window(DROP, make_profile(WINDOWS[0]))
    assert trial.profile is not None
    late = replace(trial, profile=replace(trial.profile, packets=WINDOWS[0] - 1))
    assert flags_of(late) == ("loss_open",)
    view = view_run(make_counted_run([late], [DROP]))
    assert view.trials[0].closure.reasons == ("window: 19999 packets, the DUT saw 20000",)


def test_a_lost_packet_opens_the_balance() -> None:
    assert flags_of(make_window(DROP, make_profile(WINDOWS[0]), tester_end={"generator.cpu1.packets": 1})) == (
        "loss_open",
    )


@pytest.mark.parametrize(("sent", "flags"), [(WINDOWS[0], ()), (WINDOWS[0] - 1, ("loss_open",))])
def test_a_port_has_the_balance_of_its_own_driver(sent: int, flags: tuple[str, ...]) -> None:
    trial = make_window(DROP, make_profile(WINDOWS[0]), port="igb", tester_end={"netdev.tx_packets": sent})
    run = make_counted_run([trial], [DROP], port="igb")
    assert validity.flag_names(view_run(run).trials[0].flags) == flags


def test_a_port_that_was_never_probed_has_the_general_balance() -> None:
    run = make_counted_run(
        [make_window(DROP, make_profile(WINDOWS[0]))], [DROP], fingerprint=make_guest_fingerprint("igb")
    )
    assert validity.flag_names(view_run(run).trials[0].flags) == ("closure_generic",)


def test_an_excluded_window_takes_its_boot_out() -> None:
    lost = make_window(DROP, make_profile(WINDOWS[0]), boot=1, tester_end={"generator.cpu1.packets": 1})
    found = count([*make_boot(DROP), lost, make_boot(DROP, boot=1)[1]])
    assert [boot.boot for boot in found.boots] == [0]
    assert [flags for _, flags in found.excluded] == [("loss_open",)]


# Boots


def test_boots_that_counted_the_same_agree() -> None:
    found = count([*make_boot(DROP), *make_boot(DROP, boot=1)])
    assert (len(found.boots), found.boots_agree, found.spread) == (2, True, 0)


def test_boots_that_differ_have_a_spread_and_a_mean() -> None:
    found = count([*make_boot(DROP), *make_boot(DROP, more(RCV, 2), boot=1)])
    assert (found.boots_agree, found.spread, found.figure) == (False, 2, FIGURE + 1)


def test_two_functions_that_cancel_out_are_no_agreement() -> None:
    costs = {**more(RCV, 2), ("veth_poll [veth]", "receive"): 98}
    found = count([*make_boot(DROP), *make_boot(DROP, costs, boot=1)])
    assert (found.spread, found.boots_agree) == (0, False)


def test_timer_interrupts_are_not_what_boots_must_agree_in() -> None:
    assert count([*make_boot(DROP), *make_boot(DROP, more(("tick_sched_timer", "rest"), 3), boot=1)]).boots_agree


def stored_flags(trials: Sequence[Trial]) -> list[tuple[str, ...]]:
    run = make_counted_run(trials, [DROP])
    stored, names = bench.find_flags(run)
    assert [view.flags for view in view_run(run).trials] == list(stored.values())
    return [tuple(name for bit, name in enumerate(names) if mask >> bit & 1) for mask in stored.values()]


def test_boots_that_differ_from_the_first_are_flagged_and_stay_usable() -> None:
    trials = [*make_boot(DROP), *make_boot(DROP, boot=1), *make_boot(DROP, more(RCV, 2), boot=2)]
    assert stored_flags(trials) == [()] * 4 + [("boots_differ",)] * 2
    assert len(count(trials).boots) == 3


def test_a_single_window_that_differs_is_flagged_though_no_figure_shows_it() -> None:
    once = {**ONCE, RCV: 5}
    trials = [*make_boot(DROP), *make_boot(DROP, once=once, boot=1)]
    assert stored_flags(trials) == [()] * 2 + [("boots_differ",)] * 2
    assert count(trials).boots_agree


def test_neither_the_rest_nor_a_trial_without_counts_makes_boots_differ() -> None:
    late = make_boot(DROP, more(("tick_sched_timer", "rest"), 3), boot=1)
    assert stored_flags([*make_boot(DROP), *late]) == [()] * 4
    lost = [make_window(DROP, None, number=number) for number in range(2)]
    assert "boots_differ" not in str(stored_flags([*lost, *make_boot(DROP, boot=1)]))


# Verdicts


def test_one_instruction_more_on_every_packet_is_regressed() -> None:
    case = compare_costs(more(RCV, 1))
    assert (case.verdict, case.insn) == ("REGRESSED", 1)
    assert case.pct == pytest.approx(100 / FIGURE)
    assert case.bound is not None
    assert case.bound == (MIN_BOUND, "half an instruction")
    assert [(one.place.function, one.insn) for one in find_changes(case.a, case.b, ["receive"])][0] == (
        "veth_xdp_rcv_one",
        1,
    )


def test_one_instruction_less_is_improved() -> None:
    assert compare_costs(more(RCV, -1)).verdict == "IMPROVED"


def test_less_than_half_an_instruction_is_equivalent() -> None:
    assert compare_costs(more(RCV, 0.5)).verdict == "EQUIVALENT"


def test_the_generator_decides_nothing() -> None:
    case = compare_costs(more(SEND, 100))
    assert (case.verdict, case.insn) == ("EQUIVALENT", 0)


def test_boots_of_one_kernel_that_differ_widen_the_bound() -> None:
    a = make_counted_run([*make_boot(DROP), *make_boot(DROP, more(RCV, 4), boot=1)], [DROP])
    b = make_counted_run(make_boot(DROP, more(RCV, 5)), [DROP], run_id="b")
    case = only(compare_runs(a, b))
    assert (case.insn, case.verdict) == (3, "EQUIVALENT")
    assert case.bound == (4, "the boots of A differ by as much")


def test_what_a_send_costs_once_widens_the_bound() -> None:
    once = {**ONCE, ("veth_poll [veth]", "receive"): 80_000}
    a = make_counted_run(make_boot(DROP), [DROP])
    b = make_counted_run(make_boot(DROP, more(RCV, 1), once=once), [DROP], run_id="b")
    case = only(compare_runs(a, b))
    assert case.verdict == "EQUIVALENT"
    assert case.bound == (2, "what a send costs B once, over the packets")


def test_a_margin_widens_the_bound_when_it_is_asked_for() -> None:
    assert compare_costs(more(RCV, 3)).verdict == "REGRESSED"
    wide = compare_costs(more(RCV, 3), margin_pct=1.0)
    assert wide.bound == (FIGURE / 100, "the margin of 1 %")
    assert wide.verdict == "EQUIVALENT"


def test_a_regression_is_status_3() -> None:
    comparison = compare_runs(counted(), counted(more(RCV, 1), run_id="b"))
    assert comparison.status == errors.REGRESSED
    assert compare_runs(counted(), counted(run_id="b")).status == 0


def test_a_case_without_counts_is_excluded_with_the_reason() -> None:
    b = make_counted_run([make_window(DROP, None, number=n) for n in range(2)], [DROP], run_id="b")
    case = only(compare_runs(counted(), b))
    assert (case.verdict, case.reason) == ("EXCLUDED", "B: all 2 trials excluded: no_count")
    assert case.bound is None


def test_a_case_that_is_skipped_is_excluded_with_the_reason() -> None:
    b = make_counted_run([], [], run_id="b", skipped={case_id(DROP): "the driver has no XDP"})
    assert only(compare_runs(counted(), b)).reason == "B: skipped: the driver has no XDP"

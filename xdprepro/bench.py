# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a suite on a lab that is up and locked: the agents' lines go to a journal, what is complete is sealed.

A failing case does not end the suite. Several runs of one suite are interleaved restart by restart (A B, B A, A B),
so that a machine that gets slower meanwhile meets all of them alike.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xdprepro import archive, provision, validity
from xdprepro.cases import LARGEST_IN_ONE_PAGE, LARGEST_MTU, Case
from xdprepro.errors import STORAGE, UNAVAILABLE, XdpreproError
from xdprepro.lab import Lab
from xdprepro.load import make_calibrations
from xdprepro.needs import find_missing
from xdprepro.preflight import Place, find_checks, find_errors, format_check
from xdprepro.rehearsal import check_steering
from xdprepro.sample import Run, TrialKey, parse_journal
from xdprepro.session import Progress, Ready, Session
from xdprepro.specs import plan_cpus
from xdprepro.suite import Suite
from xdprepro.trial import read_probe
from xdprepro.working_set import resolve_lines


@dataclass(frozen=True, slots=True)
class Outcome:
    """A sealed run, how many of its trials are ok, failed, or ok but flagged, and what tells it from others."""

    path: Path
    run_id: str
    status: str
    ok: int
    failed: int
    flagged: int
    about: Mapping[str, str]


def prepare(lab: Lab, suite: Suite) -> Ready:
    """Decide case by case what can run, also by where packets arrive; a suite of which nothing can is an error."""
    ready = _check_steering(lab, look_ahead(lab, suite))
    if not ready.cases:
        raise XdpreproError(
            f"suite {suite.name}: no case can run on lab {lab.name}; {next(iter(ready.skipped.values()))}",
            hint=_hint_for(lab, ready.dut),
            status=UNAVAILABLE,
        )
    return ready


def look_ahead(lab: Lab, suite: Suite) -> Ready:
    """Probe both ports and decide case by case; the reasons are the probes' own."""
    dut, tester = probe_ports(lab)
    cases = {case.id: resolve_lines(resolve_generator(case, tester), dut) for case in suite.cases}
    usable, skipped = divide(lab, cases, dut, tester)
    wanted = make_calibrations(case for case in suite.cases if case.id in usable)
    calibrating, missing = divide(lab, {case.id: resolve_generator(case, tester) for case in wanted}, dut, tester)
    usable |= calibrating
    cpus = {key: plan_cpus(dut["cpus"], case) for key, case in usable.items()}
    return Ready(usable, cpus, skipped | missing, dut, tester)


def probe_ports(lab: Lab) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the DUT's and the tester's port of a lab that is up can do; both must be as the inventory has them."""
    provision.check_up(lab)
    dut, tester = read_probe(lab.dut), read_probe(lab.tester)
    for end, probe in (("DUT", dut), ("tester", tester)):
        check_port(lab, end, probe)
    return dut, tester


def divide(
    lab: Lab, cases: Mapping[str, Case], dut: Mapping[str, Any], tester: Mapping[str, Any]
) -> tuple[dict[str, Case], dict[str, str]]:
    """The cases that can run, and why the others cannot."""
    place = Place(lab, dut, tester)
    skipped = {key: reason for key, case in cases.items() if (reason := _find_reason(case, place))}
    return {key: case for key, case in cases.items() if key not in skipped}, skipped


def _find_reason(case: Case, place: Place) -> str:
    reason = find_missing(case, place.dut, place.tester)
    return reason or "; ".join(map(format_check, find_errors(find_checks(case, place))[:1]))


def _check_steering(lab: Lab, ready: Ready) -> Ready:
    """Leave out cases with sockets on some queues only, where packets arrive on others."""
    place = Place(lab, ready.dut, ready.tester)
    some = {key: case for key, case in ready.cases.items() if 0 < case.xsk_queues < ready.dut["rx_queues"]}
    checks = {key: check_steering(case, place) for key, case in some.items() if case.role in ("sink", "forward")}
    lost = {key: format_check(check) for key, check in checks.items() if find_errors([check])}
    cases = {key: case for key, case in ready.cases.items() if key not in lost}
    return replace(ready, cases=cases, skipped={**ready.skipped, **lost})


def _hint_for(lab: Lab, dut: Mapping[str, Any]) -> str:
    # Native XDP without fragments needs a frame with head and tail room in one page, which is 4 KiB at the least.
    if dut["mtu"] > LARGEST_MTU and not dut["can"]["xdp_native"]["ok"]:
        return f"set lab_mtu to {LARGEST_MTU} or less in {lab.path}, then run 'xdprepro up {lab.spec}'"
    return "'xdprepro suite list' shows the other suites"


def check_port(lab: Lab, end: str, probe: Mapping[str, Any]) -> None:
    """A port that is not as the inventory has it, or that someone else uses, is no port to measure on."""
    if probe["xdp"]["attached"]:
        raise XdpreproError(
            f"{end} {probe['ifname']}: XDP program {probe['xdp']['prog_id']} of someone else is attached",
            hint=f"end what holds it, or run 'xdprepro down {lab.spec}' and 'xdprepro up {lab.spec}'",
        )
    for key, got, wanted in (
        ("carrier", probe["carrier"], True),
        ("MTU", probe["mtu"], lab.mtu),
        ("receive queues", probe["rx_queues"], lab.queues),
    ):
        if got != wanted:
            raise XdpreproError(
                f"lab {lab.name}: {end} {probe['ifname']}: {key} is {got}, the lab's is {wanted}",
                hint=f"run 'xdprepro up {lab.spec}' to repair the lab",
            )


def resolve_generator(case: Case, tester: Mapping[str, Any]) -> Case:
    """The case with `auto` replaced by the generator that kernel and attach mode allow; it is stored with the result.

    Live frames enter a port only where the receiving end has native XDP, so skb mode takes AF_PACKET; so do what live
    frames cannot do, a closed loop and frames of more than a page.
    """
    if case.generator != "auto":
        return case
    can = case.attach_mode == "native" and case.load != "closed" and case.frame_len <= LARGEST_IN_ONE_PAGE
    live = can and tester["can"]["live_frames"]["ok"]
    return replace(case, generator="live-frames" if live else "af-packet")


def run_suite(
    lab: Lab,
    suite: Suite,
    directory: Path,
    *,
    runs: int,
    tell: Callable[[Progress], None],
    stopped: Callable[[], bool],
) -> list[Outcome]:
    """Measure `runs` runs and seal them; `stopped` is asked after every trial.

    Whatever ends it early (a stop, a lab that broke, a KeyboardInterrupt), the runs that have a whole trial are sealed
    as partial first.
    """
    session = Session(lab, suite, prepare(lab, suite), runs, tell, stopped)
    with ExitStack() as stack:
        journals = [stack.enter_context(archive.Journal(directory, head)) for head in session.heads()]
        can_seal = True
        try:
            session.measure(journals)
        except XdpreproError as error:
            # A full disk takes no sealed file either; the journals stay and can be recovered.
            can_seal = error.status != STORAGE
            raise
        finally:
            outcomes = [seal_journal(path) for path in session.end(journals)] if can_seal else []
        return outcomes


def find_flags(run: Run) -> tuple[dict[TrialKey, int], tuple[str, ...]]:
    """The flags of every trial and the names of their bits, as they are stored."""
    return validity.run_flags(run), validity.FLAGS


def seal_journal(path: Path) -> Outcome:
    """Seal the run that a journal of ours holds, with the flags of every trial, then remove the journal."""
    run = parse_journal(archive.read_journal(path))
    flags, names = find_flags(run)
    sealed = archive.seal(run, path.parent.parent, flags, names)
    archive.remove_journal(path)
    ok = [trial for trial in run.trials if trial.status == "ok"]
    flagged = sum(1 for trial in ok if flags[trial.key])
    return Outcome(sealed, run.run_id, run.status, len(ok), len(run.trials) - len(ok), flagged, _what_ran(run))


def _what_ran(run: Run) -> dict[str, str]:
    """The kernel, and how a guest was booted with it."""
    kernel, guest = run.fingerprint["kernel"], run.fingerprint.get("guest")
    about = {"kernel": kernel["release"]}
    return about | {"spec": kernel["spec"], "cmdline": guest["cmdline"], "cpu": guest["cpu"]} if guest else about

# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a suite on a lab that is up and locked: the agents' lines go to a journal, what is complete is sealed.

A failing case does not end the suite. Several runs of one suite are interleaved restart by restart (A B, B A, A B),
so that a machine that gets slower meanwhile meets all of them alike.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from xdprepro import archive, fingerprint, provision, validity
from xdprepro.cases import Case
from xdprepro.errors import STORAGE, UNAVAILABLE, XdpreproError
from xdprepro.lab import Lab
from xdprepro.needs import find_missing
from xdprepro.sample import Run, TrialKey, parse_journal
from xdprepro.specs import Cpus, plan_cpus
from xdprepro.suite import Slot, Suite
from xdprepro.trial import read_agent_version, read_probe, run_trial

ROOT = Path(__file__).parent.parent
OVERHEAD_S = 0.5  # starting and stopping the agents of one trial: a first guess, for the time left
LARGEST_MTU = 3386  # of a frame_len of 3400
RESTART_S = 4.0  # making the lab anew, likewise


@dataclass(frozen=True, slots=True)
class Progress:
    """One step, for whoever shows it; `left_s` is the estimated time to the end of all runs."""

    done: int
    total: int
    left_s: float
    what: str
    problem: str = ""
    unit: str = "trials"


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


@dataclass(frozen=True, slots=True)
class Ready:
    """What a suite comes to on a lab: the cases that can run, with their CPUs, and the reasons of those that cannot."""

    cases: Mapping[str, Case]
    cpus: Mapping[str, Cpus]
    skipped: Mapping[str, str]
    dut: Mapping[str, Any]
    tester: Mapping[str, Any]


def prepare(lab: Lab, suite: Suite) -> Ready:
    """Probe both ports and decide case by case; the reasons are the probes' own."""
    provision.check_up(lab)
    dut, tester = read_probe(lab.dut), read_probe(lab.tester)
    for end, probe in (("DUT", dut), ("tester", tester)):
        check_port(lab, end, probe)
    cases = {case.id: resolve_generator(case, tester) for case in suite.cases}
    skipped = {key: reason for key, case in cases.items() if (reason := find_missing(case, dut, tester))}
    usable = {key: case for key, case in cases.items() if key not in skipped}
    if not usable:
        raise XdpreproError(
            f"suite {suite.name}: no case can run on lab {lab.name}; {next(iter(skipped.values()))}",
            hint=_hint_for(lab, dut),
            status=UNAVAILABLE,
        )
    return Ready(usable, {key: plan_cpus(dut["cpus"], case) for key, case in usable.items()}, skipped, dut, tester)


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

    Live frames enter a port only where the receiving end has native XDP, so skb mode takes AF_PACKET.
    """
    if case.generator != "auto":
        return case
    live = case.attach_mode == "native" and tester["can"]["live_frames"]["ok"]
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
    session = _Session(lab, suite, prepare(lab, suite), runs, tell, stopped)
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
            outcomes = session.seal(journals) if can_seal else []
        return outcomes


def find_flags(run: Run) -> tuple[dict[TrialKey, int], tuple[str, ...]]:
    """The flags of every trial and the names of their bits, as they are stored."""
    return {trial.key: validity.trial_flags(trial, run) for trial in run.trials}, validity.FLAGS


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


def _lab_summary(lab: Lab) -> dict[str, Any]:
    return {"name": lab.name, "kind": lab.kind, "queues": lab.queues, "mtu": lab.mtu}


class _Session:
    """The runs of one command: their plans executed block by block, and the time that is left."""

    def __init__(
        self,
        lab: Lab,
        suite: Suite,
        ready: Ready,
        runs: int,
        tell: Callable[[Progress], None],
        stopped: Callable[[], bool],
    ) -> None:
        self.lab, self.suite, self.ready, self.tell, self.stopped = lab, suite, ready, tell, stopped
        self.plans = [suite.plan(ready.cases, run=run) for run in range(runs)]
        self.total = sum(len(plan) for plan in self.plans)
        self.finished = [0] * runs
        self.good = [0] * runs
        self.overhead_s, self.restart_s = OVERHEAD_S, RESTART_S
        self.restarts_left = runs * suite.restarts

    def heads(self) -> list[dict[str, Any]]:
        """The first record of each run's journal."""
        ready = self.ready
        fingerprint_, documents = fingerprint.read_fingerprint(
            agent=read_agent_version(), dut=ready.dut, tester=ready.tester, lab=_lab_summary(self.lab), root=ROOT
        )
        common = {
            "rec": "run",
            "plan_id": archive.make_run_id(),
            "suite": self.suite.name,
            "lab": self.lab.name,
            "lab_kind": self.lab.kind,
            "restarts": self.suite.restarts,
            "trials_per_restart": self.suite.trials,
            "design": "interleaved" if len(self.plans) > 1 else "single",
            "fingerprint": fingerprint_,
            "documents": documents | {"suite": self.suite.text},
            "cases": {key: case.params() | {"cpus": asdict(ready.cpus[key])} for key, case in ready.cases.items()},
        }
        return [common | {"run_id": archive.make_run_id(), "t_utc_ns": time.time_ns()} for _ in self.plans]

    def measure(self, journals: list[archive.Journal]) -> None:
        """All blocks of all runs; a stop or a second Ctrl-C ends it early."""
        for journal in journals:
            for key, reason in self.ready.skipped.items():
                journal.append({"rec": "skip", "case_id": key, "reason": reason})
        for key, reason in self.ready.skipped.items():
            self.tell(self.progress("starting", problem=f"skipped {key}: {reason}"))
        runs = range(len(self.plans))
        try:
            for boot in range(self.suite.restarts):
                for run in runs if boot % 2 == 0 else reversed(runs):
                    self._block(journals[run], run, boot)
        except KeyboardInterrupt:
            self.tell(self.progress("interrupted"))

    def _block(self, journal: archive.Journal, run: int, boot: int) -> None:
        if self.stopped():
            return
        self.tell(self.progress(f"restart {boot + 1} of {self.suite.restarts}: making lab {self.lab.name} anew"))
        self._restart()
        journal.append(
            {
                "rec": "boot",
                "boot": boot,
                "kind": "restart",
                "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
                "kernel_release": self.ready.dut["kernel"]["release"],
                "t_utc_ns": time.time_ns(),
            }
        )
        for number, slot in enumerate(self.plans[run]):
            if slot.boot == boot:
                if self.stopped():
                    return
                self._trial(journal, run, number, slot)

    def _restart(self) -> None:
        with provision.start_turn():
            start_s = time.monotonic()
            provision.restart(self.lab)
        for host, before in ((self.lab.dut, self.ready.dut), (self.lab.tester, self.ready.tester)):
            if changes := fingerprint.find_port_changes(before, read_probe(host)):
                raise XdpreproError(
                    f"lab {self.lab.name}: {host.ifname} is not as it was at the start: {'; '.join(changes)}",
                    hint=f"run 'xdprepro up {self.lab.spec}', then run the suite again",
                )
        self.restart_s = time.monotonic() - start_s
        self.restarts_left -= 1

    def _trial(self, journal: archive.Journal, run: int, number: int, slot: Slot) -> None:
        """One trial, journalled; a failed one is recorded and told, and the suite goes on."""
        case = self.ready.cases[slot.case_id]
        self.tell(self.progress(f"run {run + 1} of {len(self.plans)}, restart {slot.boot + 1}: {slot.case_id}"))
        record = {"rec": "trial", "slot": number, **slot._asdict(), "t_utc_ns": time.time_ns()}
        journal.append(record)
        end = {"rec": "trial_end", "slot": number, "status": "interrupted", "reason": "interrupted by the user"}
        start_s = time.monotonic()
        try:
            with provision.start_turn():
                start_s = time.monotonic()
                run_trial(
                    self.lab,
                    case,
                    self.ready.cpus[slot.case_id],
                    range(self.ready.dut["rx_queues"]),
                    lambda side, message: journal.append({"rec": "line", "slot": number, "side": side, "msg": message}),
                )
            end |= {"status": "ok", "reason": ""}
        except XdpreproError as error:
            if error.status == STORAGE:
                raise
            end |= {"status": "failed", "reason": error.message}
        finally:
            journal.append(end)
        self.finished[run] += 1
        self.good[run] += end["status"] == "ok"
        self.overhead_s += 0.2 * (time.monotonic() - start_s - self.suite.trial_s(case) - self.overhead_s)
        if end["status"] == "failed":
            self.tell(self.progress(slot.case_id, problem=f"failed: {slot.case_id}: {end['reason']}"))

    def progress(self, what: str, *, problem: str = "") -> Progress:
        """Where it stands now."""
        left = [slot for plan, done in zip(self.plans, self.finished, strict=True) for slot in plan[done:]]
        trials_s = sum(self.suite.trial_s(self.ready.cases[slot.case_id]) + self.overhead_s for slot in left)
        left_s = trials_s + self.restarts_left * self.restart_s
        return Progress(sum(self.finished), self.total, left_s, what, problem)

    def seal(self, journals: list[archive.Journal]) -> list[Outcome]:
        """End each journal and seal its run; one without any finished trial is removed."""
        outcomes = []
        for journal, plan, finished, good in zip(journals, self.plans, self.finished, self.good, strict=True):
            if not finished:
                archive.remove_journal(journal.path)
                continue
            status = "failed" if not good else "complete" if finished == len(plan) else "partial"
            journal.append({"rec": "end", "status": status, "t_utc_ns": time.time_ns()})
            journal.sync()
            outcomes.append(seal_journal(journal.path))
        return outcomes

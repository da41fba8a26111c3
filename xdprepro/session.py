# SPDX-License-Identifier: GPL-2.0-or-later
"""The runs of one command: their plans executed block by block and written to their journals, and the time left.

A search is one place in a plan, but as many trials as it takes: it counts them in the second index of its case.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from xdprepro import archive, fingerprint, provision
from xdprepro.cases import Case
from xdprepro.closure import close_losses
from xdprepro.duration import OVERHEAD_S, RESTART_S, slot_s
from xdprepro.errors import STORAGE, XdpreproError
from xdprepro.lab import Lab
from xdprepro.load import LoadKey, accepted_pps, is_calibration, load_key, read_step
from xdprepro.sample import SIDES, Trial, TrialKey, parse_stream, say_skipped
from xdprepro.search import Step, run_search
from xdprepro.specs import Cpus
from xdprepro.suite import Slot, Suite
from xdprepro.trial import read_agent_version, read_probe, run_trial

ROOT = Path(__file__).parent.parent


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
class Ready:
    """What a suite comes to on a lab: the cases that can run, with their CPUs, and the reasons of those that cannot."""

    cases: Mapping[str, Case]
    cpus: Mapping[str, Cpus]
    skipped: Mapping[str, str]
    dut: Mapping[str, Any]
    tester: Mapping[str, Any]


def arrange(plan: Iterable[Slot], cases: Mapping[str, Case]) -> tuple[Slot, ...]:
    """A plan with one search a restart, which is many trials, and before it what tells the highest load to try."""
    slots = [slot for slot in plan if not slot.trial or cases[slot.case_id].load != "search"]
    searched = {load_key(case.params()) for case in cases.values() if case.load == "search"}
    calibrations = {key: load_key(case.params()) for key, case in cases.items() if is_calibration(case.params())}
    first = {key for key, load in calibrations.items() if load in searched}
    return tuple(sorted(slots, key=lambda slot: (slot.boot, slot.trial, slot.case_id not in first)))


def _lab_summary(lab: Lab) -> dict[str, Any]:
    return {"name": lab.name, "kind": lab.kind, "queues": lab.queues, "mtu": lab.mtu}


class Session:
    """What goes on from the first restart to the last trial."""

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
        self.plans = [arrange(suite.plan(ready.cases, run=run), ready.cases) for run in range(runs)]
        self.total = sum(len(plan) for plan in self.plans)
        self.finished = [0] * runs
        self.trials = [0] * runs  # begun, ended, and ended well: a search is many
        self.ended = [0] * runs
        self.good = [0] * runs
        self.accepted: list[dict[LoadKey, list[float]]] = [{} for _ in range(runs)]
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
        for line in say_skipped(self.ready.skipped):
            self.tell(self.progress("starting", problem=line))
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
        for slot in self.plans[run]:
            if slot.boot == boot:
                if self.stopped():
                    return
                self._slot(journal, run, slot)

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

    def _slot(self, journal: archive.Journal, run: int, slot: Slot) -> None:
        """One place of a plan; a search that was stopped is not finished."""
        case = self.ready.cases[slot.case_id]
        if case.load != "search":
            self._trial(journal, run, slot, case)
        elif not self._search(journal, run, slot):
            return
        self.finished[run] += 1

    def _search(self, journal: archive.Journal, run: int, slot: Slot) -> bool:
        """A search of one restart, each step a trial; a step that fails ends it. Whether it was not told to stop."""
        case = self.ready.cases[slot.case_id]
        steps = itertools.count()
        told_to_stop = False

        def measure(load_pps: int) -> Step | None:
            nonlocal told_to_stop
            step = next(steps)
            if step and self.stopped():
                told_to_stop = True
                return None
            at_load = replace(case, load="fixed", rate_pps=load_pps)
            trial = self._trial(journal, run, slot._replace(trial=step), at_load)
            return read_step(trial, case.params()) if trial.status == "ok" else None

        if not (known := self.accepted[run].get(load_key(case.params()))):
            self._fail(journal, run, slot, "what its generator can do is not known: no calibration ended well")
            return True
        run_search(measure, max_pps=median(known), loss_ratios=case.loss_ratios, width=case.width)
        return not told_to_stop

    def _trial(self, journal: archive.Journal, run: int, slot: Slot, case: Case) -> Trial:
        """One trial, journalled; a failed one is recorded and told, and the suite goes on."""
        at = f" at {case.rate_pps} packets/s" if case.load != self.ready.cases[slot.case_id].load else ""
        self.tell(self.progress(f"run {run + 1} of {len(self.plans)}, restart {slot.boot + 1}: {slot.case_id}{at}"))
        number, record = self._begin(journal, run, slot)
        end = {"rec": "trial_end", "slot": number, "status": "interrupted", "reason": "interrupted by the user"}
        said: dict[str, list[Mapping[str, Any]]] = {side: [] for side in SIDES}
        start_s = time.monotonic()

        def keep(side: str, message: Mapping[str, Any]) -> None:
            journal.append({"rec": "line", "slot": number, "side": side, "msg": message})
            said[side].append(message)

        try:
            with provision.start_turn():
                start_s = time.monotonic()
                run_trial(self.lab, case, self.ready.cpus[slot.case_id], range(self.ready.dut["rx_queues"]), keep)
            end |= {"status": "ok", "reason": ""}
        except XdpreproError as error:
            if error.status == STORAGE:
                raise
            end |= {"status": "failed", "reason": error.message}
        finally:
            journal.append(end)
        self.ended[run] += 1
        self.good[run] += end["status"] == "ok"
        self.overhead_s += 0.2 * (time.monotonic() - start_s - self.suite.trial_s(case) - self.overhead_s)
        if end["status"] == "failed":
            self.tell(self.progress(slot.case_id, problem=f"failed: {slot.case_id}: {end['reason']}"))
        trial = Trial(
            key=TrialKey(slot.case_id, slot.boot, slot.trial),
            slot=number,
            t_utc_ns=record["t_utc_ns"],
            status=str(end["status"]),
            reason=str(end["reason"]),
            dut=parse_stream(said["dut"]),
            tester=parse_stream(said["tester"]),
        )
        self._note_calibration(run, trial)
        return trial

    def _begin(self, journal: archive.Journal, run: int, slot: Slot) -> tuple[int, dict[str, Any]]:
        """The next trial's number in the order of execution, and its first record."""
        number = self.trials[run]
        self.trials[run] += 1
        record = {"rec": "trial", "slot": number, **slot._asdict(), "t_utc_ns": time.time_ns()}
        journal.append(record)
        return number, record

    def _fail(self, journal: archive.Journal, run: int, slot: Slot, reason: str) -> None:
        """A trial that could not begin."""
        number, _ = self._begin(journal, run, slot)
        journal.append({"rec": "trial_end", "slot": number, "status": "failed", "reason": reason})
        self.ended[run] += 1
        self.tell(self.progress(slot.case_id, problem=f"failed: {slot.case_id}: {reason}"))

    def _note_calibration(self, run: int, trial: Trial) -> None:
        """What the generator had accepted, where the trial was one to tell that."""
        params = self.ready.cases[trial.key.case_id].params()
        if not is_calibration(params):
            return
        drivers = {"dut_driver": self.ready.dut["driver"], "tester_driver": self.ready.tester["driver"]}
        if pps := accepted_pps(trial, close_losses(trial, params, **drivers)):
            self.accepted[run].setdefault(load_key(params), []).append(pps)

    def _slot_s(self, slot: Slot) -> float:
        """How long one place of a plan takes, as far as that is known."""
        return slot_s(self.ready.cases[slot.case_id], overhead_s=self.overhead_s)

    def progress(self, what: str, *, problem: str = "") -> Progress:
        """Where it stands now."""
        left = [slot for plan, done in zip(self.plans, self.finished, strict=True) for slot in plan[done:]]
        left_s = sum(map(self._slot_s, left)) + self.restarts_left * self.restart_s
        return Progress(sum(self.finished), self.total, left_s, what, problem)

    def end(self, journals: Iterable[archive.Journal]) -> list[Path]:
        """End each journal, and tell those that can be sealed; one without any finished trial is removed."""
        ended = []
        for run, journal in enumerate(journals):
            if not self.ended[run]:
                archive.remove_journal(journal.path)
                continue
            is_whole = self.finished[run] == len(self.plans[run])
            status = "failed" if not self.good[run] else "complete" if is_whole else "partial"
            journal.append({"rec": "end", "status": status, "t_utc_ns": time.time_ns()})
            journal.sync()
            ended.append(journal.path)
        return ended

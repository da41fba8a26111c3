# SPDX-License-Identifier: GPL-2.0-or-later
"""What was measured: samples, trials and runs, and how a run is read back from the records of its journal.

Every number is as its source gave it: cumulative, unsigned 64 bit, unscaled. Times `t*_ns` are CLOCK_MONOTONIC_RAW,
`*_utc_ns` are the wall clock.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

from xdprepro.errors import STORAGE, XdpreproError

PHASES = ("settle", "measure", "drain")
EDGES = ("start", "end")
SIDES = ("dut", "tester")
TRIAL_STATUSES = ("ok", "failed", "interrupted")
RUN_STATUSES = ("complete", "partial", "failed")
PROFILE_SIDES = ("receive", "app", "generator", "rest")

Counters = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Sample:
    """One cheap reading in a phase, begun at `t0_ns` and ended at `t1_ns`."""

    phase: str
    t0_ns: int
    t1_ns: int
    counters: Counters


@dataclass(frozen=True, slots=True)
class Reading:
    """One source read at an edge."""

    source: str
    t0_ns: int
    t1_ns: int
    counters: Counters


@dataclass(frozen=True, slots=True)
class Stream:
    """All that one agent said in one trial; an agent that never came so far has empty parts."""

    ready: Mapping[str, Any] = field(default_factory=dict)
    done: Mapping[str, Any] = field(default_factory=dict)
    samples: tuple[Sample, ...] = ()
    edges: Mapping[str, tuple[Reading, ...]] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    error: str = ""

    def edge(self, name: str) -> dict[str, int]:
        """All counters of an edge, each prefixed by its source (`netdev.rx_packets`)."""
        return {f"{r.source}.{key}": value for r in self.edges.get(name, ()) for key, value in r.counters.items()}

    def delta(self) -> dict[str, int]:
        """End edge minus start edge of every counter that the end has; one that the start lacks began at zero."""
        start = self.edge("start")
        return {key: value - start.get(key, 0) for key, value in self.edge("end").items()}


class ProfileRow(NamedTuple):
    """What a function cost on one side in a window; a memory pass also has loads, stores and distinct cache lines."""

    function: str
    side: str
    insn: int
    loads: int | None = None
    stores: int | None = None
    lines: int | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """Every instruction of a window by function and side, as counted; a function without a row did not run in it.

    `packets` is what the DUT's program saw; `total_insn` was counted apart from the rows, so it proves their sum.
    """

    packets: int
    rows: tuple[ProfileRow, ...]
    total_insn: int

    @property
    def has_memory(self) -> bool:
        """Whether a memory pass counted it; then every row has loads, stores and lines."""
        return any(row.loads is not None for row in self.rows)


class TrialKey(NamedTuple):
    """Where a trial stands in its run."""

    case_id: str
    boot: int
    trial: int


@dataclass(frozen=True, slots=True)
class Trial:
    """One measurement of one case; `slot` is its place in the order of execution."""

    key: TrialKey
    slot: int
    t_utc_ns: int
    status: str
    reason: str
    dut: Stream
    tester: Stream
    profile: Profile | None = None


def say_skipped(skipped: Mapping[str, str]) -> Iterator[str]:
    """One line for each reason, with all case_ids that it is of."""
    by_reason: dict[str, list[str]] = {}
    for case_id, reason in skipped.items():
        by_reason.setdefault(reason, []).append(case_id)
    for reason, ids in by_reason.items():
        yield (
            f"skipped {ids[0]}: {reason}" if len(ids) == 1 else f"skipped {len(ids)} cases: {reason}: {', '.join(ids)}"
        )


@dataclass(frozen=True, slots=True)
class Boot:
    """A boot, or on a lab that cannot reboot a restart: the lab and the agents made anew.

    A guest's boot has the port that it was made for and the kernel's whole command line.
    """

    index: int
    kind: str
    boot_id: str
    kernel_release: str
    t_utc_ns: int
    port: str = ""
    cmdline: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One suite on one kernel of one lab. `cases` maps case_id to its parameters, `skipped` case_id to the reason."""

    run_id: str
    plan_id: str
    suite: str
    lab: str
    lab_kind: str
    created_utc_ns: int
    closed_utc_ns: int
    status: str
    restarts: int
    trials_per_restart: int
    design: str
    fingerprint: Mapping[str, Any]
    documents: Mapping[str, str]
    cases: Mapping[str, Mapping[str, Any]]
    skipped: Mapping[str, str]
    boots: tuple[Boot, ...]
    trials: tuple[Trial, ...]


def parse_stream(lines: Iterable[Mapping[str, Any]]) -> Stream:
    """The messages of one agent, in order (docs/protocol.md); unknown messages are for newer readers and left out."""
    ready: Mapping[str, Any] = {}
    done: Mapping[str, Any] = {}
    samples: list[Sample] = []
    edges: dict[str, tuple[Reading, ...]] = {}
    absent: dict[str, str] = {}
    error = ""
    for line in lines:
        if "sample" in line:
            samples.append(Sample(line["phase"], line["t0_ns"], line["t1_ns"], line["counters"]))
        elif "edge" in line:
            edges[line["edge"]] = tuple(
                Reading(s["source"], s["t0_ns"], s["t1_ns"], s["counters"]) for s in line["sources"]
            )
            absent.update({a["source"]: a["reason"] for a in line.get("absent", ())})
        elif "error" in line:
            error = format_agent_error(line["error"])
        elif "ready" in line:
            ready = line
        elif "done" in line:
            done = line
    return Stream(ready, done, tuple(samples), edges, absent, error)


def format_agent_error(error: Mapping[str, Any]) -> str:
    """`object: step: reason`, as the agent means it."""
    return f"{error.get('object', '?')}: {error.get('step', '?')}: {error.get('reason', '?')}"


def format_profile(profile: Profile) -> dict[str, Any]:
    """A profile as JSON has it; parse_profile() takes it back."""
    rows = [row if row.loads is not None else row[:3] for row in profile.rows]
    return {"packets": profile.packets, "total_insn": profile.total_insn, "rows": [list(row) for row in rows]}


def parse_profile(said: Mapping[str, Any]) -> Profile:
    """A profile from its JSON; raises XdpreproError(status=STORAGE) for one that contradicts itself."""
    try:
        profile = Profile(said["packets"], tuple(ProfileRow(*row) for row in said["rows"]), said["total_insn"])
        fault = find_profile_fault(profile)
    except (LookupError, TypeError, AttributeError) as error:
        fault = f"it has not the form of one: {error!r}"
    if fault:
        raise XdpreproError(f"no profile: {fault}", hint="what counted it, or the journal, is damaged", status=STORAGE)
    return profile


def find_profile_fault(profile: Profile) -> str:
    """Why a profile cannot be true, or nothing."""
    has_memory, places = profile.has_memory, set()
    for name, value in (("packets", profile.packets), ("total_insn", profile.total_insn)):
        if not _is_u64(value):
            return f"{name} is {value!r}, no unsigned 64-bit number"
    for row in profile.rows:
        where = f"{row.function} ({row.side})"
        counts = row[2:] if has_memory else row[2:3]
        if not isinstance(row.function, str) or not row.function:
            return f"a row has the function {row.function!r}"
        if row.side not in PROFILE_SIDES:
            return f"{where}: the side is none of {', '.join(PROFILE_SIDES)}"
        if not all(map(_is_u64, counts)) or any(one is not None for one in row[2 + len(counts) :]):
            return f"{where}: its counts are {row[2:]}"
        if row[:2] in places:
            return f"{where}: has two rows"
        places.add(row[:2])
    return ""


def _is_u64(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**64


def parse_journal(records: Iterable[Mapping[str, Any]]) -> Run:
    """A run from the records of its journal (archive/README.md, "The journal").

    A journal without its `end` record, or with a trial that never ended, is what a crash leaves: such a trial is
    `interrupted`, such a run `partial`.
    """
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    lines: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for record in records:
        if record["rec"] == "line":
            lines.setdefault((record["slot"], record["side"]), []).append(record["msg"])
        else:
            by_kind.setdefault(record["rec"], []).append(record)
    if "run" not in by_kind:
        raise XdpreproError(
            "the journal has no run record",
            hint="its first line is damaged or missing; what the others say cannot be placed without it",
            status=STORAGE,
        )
    head = by_kind["run"][0]
    ends = {record["slot"]: record for record in by_kind.get("trial_end", ())}
    started = by_kind.get("trial", ())
    profiles = {record["slot"]: parse_profile(record["profile"]) for record in by_kind.get("profile", ())}
    fingerprint = reduce(merge, (record["add"] for record in by_kind.get("fingerprint", ())), head["fingerprint"])
    last_utc_ns = max(r["t_utc_ns"] for r in (head, *by_kind.get("boot", ()), *started, *by_kind.get("end", ())))
    return Run(
        run_id=head["run_id"],
        plan_id=head["plan_id"],
        suite=head["suite"],
        lab=head["lab"],
        lab_kind=head["lab_kind"],
        created_utc_ns=head["t_utc_ns"],
        closed_utc_ns=last_utc_ns,
        status=by_kind["end"][-1]["status"] if "end" in by_kind else "partial",
        restarts=head["restarts"],
        trials_per_restart=head["trials_per_restart"],
        design=head["design"],
        fingerprint=fingerprint,
        documents={**head["documents"], **{r["name"]: r["text"] for r in by_kind.get("document", ())}},
        cases=head["cases"],
        skipped={record["case_id"]: record["reason"] for record in by_kind.get("skip", ())},
        boots=tuple(
            Boot(
                index=r["boot"],
                kind=r["kind"],
                boot_id=r["boot_id"],
                kernel_release=r["kernel_release"],
                t_utc_ns=r["t_utc_ns"],
                port=r.get("port", ""),
                cmdline=r.get("cmdline", ""),
            )
            for r in by_kind.get("boot", ())
        ),
        trials=tuple(_parse_trial(r, ends.get(r["slot"]), lines, profiles.get(r["slot"])) for r in started),
    )


def _parse_trial(
    record: Mapping[str, Any],
    end: Mapping[str, Any] | None,
    lines: Mapping[tuple[int, str], list[Mapping[str, Any]]],
    profile: Profile | None,
) -> Trial:
    slot = record["slot"]
    return Trial(
        key=TrialKey(record["case_id"], record["boot"], record["trial"]),
        slot=slot,
        t_utc_ns=record["t_utc_ns"],
        status=end["status"] if end else "interrupted",
        reason=end["reason"] if end else "the journal ends within this trial",
        dut=parse_stream(lines.get((slot, "dut"), ())),
        tester=parse_stream(lines.get((slot, "tester"), ())),
        profile=profile,
    )


def merge(tree: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Nested objects, with those of another added; of two leaves of one name the other's stays."""
    merged = dict(tree)
    for key, value in more.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The leaves of nested objects by their dotted names; lists are leaves."""
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        leaves |= flatten(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return leaves

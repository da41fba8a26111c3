# SPDX-License-Identifier: GPL-2.0-or-later
"""The format of a run file: every variable with its type and dimensions, in one table for writer, reader and verifier.

archive/README.md tells the same to people, with the reasons. A variable is in the file if and only if all of its
dimensions are: a case without AF_XDP sockets has no queue of that group, so it has no such counters either. Optional
variables came with a later version, and are there only where one value says something.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from xdprepro.sample import PHASES, PROFILE_SIDES, TRIAL_STATUSES

SCHEMA_ID = "xdprepro-run"
SCHEMA_VERSION = "1.1.0"
MIN_READER_VERSION = "0.1.0"
TEXT = "S"  # fixed-length UTF-8, as wide as the longest value needs, in steps of 64 bytes
NONE = "none"  # value 0 of every flag: there is no such trial or sample

BOOT_KINDS = ("boot", "restart")
SAMPLE_MASKS = ("absent", "warmup", "drain")
ABSENT, WARMUP, DRAIN = (1 << bit for bit in range(len(SAMPLE_MASKS)))


@dataclass(frozen=True, slots=True)
class Var:
    """One variable. A variable whose only dimension is itself is a dimension scale; value i of a flag is values[i]."""

    dtype: str
    dims: tuple[str, ...]
    about: str
    unit: str = ""
    values: tuple[str, ...] = ()
    masks: tuple[str, ...] = ()
    optional: bool = False


def _scale(name: str, about: str, dtype: str = "<i4") -> dict[str, Var]:
    return {name: Var(dtype, (name,), about)}


_TRIAL = ("boot", "trial")
_SAMPLE = (*_TRIAL, "sample")
_T0 = "CLOCK_MONOTONIC_RAW just before the reading"
_T1 = "CLOCK_MONOTONIC_RAW just after the reading"

BOOTS: Mapping[str, Var] = {
    **_scale("boot", "boots in order of execution"),
    "boot_kind": Var("|u1", ("boot",), "a boot of the machine, or a restart of lab and agents", values=BOOT_KINDS),
    "boot_id": Var(TEXT, ("boot",), "the kernel's own boot_id"),
    "kernel_release": Var(TEXT, ("boot",), "uname -r of the DUT"),
    "t_boot_utc_ns": Var("<i8", ("boot",), "wall clock when the boot's trials began", "ns"),
    "port": Var(TEXT, ("boot",), "the port that a guest was made for", optional=True),
    "cmdline": Var(TEXT, ("boot",), "the whole command line of a guest's kernel", optional=True),
}


def _stamps(dims: tuple[str, ...]) -> dict[str, Var]:
    """What every reading has besides its counters."""
    return {
        "t0_ns": Var("<i8", dims, _T0, "ns"),
        "t1_ns": Var("<i8", dims, _T1, "ns"),
        "phase": Var("|u1", dims, "phase of the trial", values=(NONE, *PHASES)),
        "valid": Var("<u2", dims, "0: a measured sample", masks=SAMPLE_MASKS),
    }


def _counters(name: str, dims: tuple[str, ...], about: str) -> dict[str, Var]:
    """Cumulative counters, and which of them were there: an absent counter is not a zero."""
    return {
        name: Var("<u8", dims, about),
        "present": Var("|u1", dims, "1: the agent gave this counter, 0: it did not"),
    }


CASE: Mapping[str, Var] = {
    **_scale("boot", "index into /boots"),
    **_scale("trial", "trials of a boot in order of execution"),
    **_scale("sample", "samples of a trial in order of time"),
    **_scale("cpu", "CPU number"),
    **_scale("queue", "rx queue id"),
    **_scale("counter", "XDP action and unit, as the agent spells them", TEXT),
    "trial_status": Var("|u1", _TRIAL, "how the trial ended", values=(NONE, *TRIAL_STATUSES)),
    "trial_reason": Var(TEXT, _TRIAL, "why it is not ok; the whole text is in agent_reports"),
    "trial_flags": Var("<u4", _TRIAL, "what makes the trial unfit for a verdict; the bits are in flag_meanings"),
    "slot": Var("<i4", _TRIAL, "place in the run's order of execution, -1 where there is no trial"),
    "t_epoch_ns": Var("<i8", _TRIAL, "wall clock at the start of the trial", "ns"),
    **_stamps(_SAMPLE),
    "counters": Var(
        "<u8",
        (*_SAMPLE, "cpu", "queue", "counter"),
        "cumulative counts of the XDP program; what the agent leaves out is a true zero",
    ),
}

XSK_APP: Mapping[str, Var] = {
    **_scale("xsk_queue", "queue id of the socket"),
    **_scale("xsk_counter", "counter of the AF_XDP loop", TEXT),
    **_counters("counters", (*_SAMPLE, "xsk_queue", "xsk_counter"), "cumulative counts of the AF_XDP loop"),
}

OTHER: Mapping[str, Var] = {
    **_scale("other_counter", "full name", TEXT),
    **_counters("counters", (*_SAMPLE, "other_counter"), "cumulative counters that have no array of their own"),
}

_TESTER_SAMPLE = (*_TRIAL, "tester_sample")
TESTER: Mapping[str, Var] = {
    **_scale("tester_sample", "samples of the tester's agent in order of time"),
    **_scale("tester_counter", "full name", TEXT),
    **_stamps(_TESTER_SAMPLE),
    **_counters("counters", (*_TESTER_SAMPLE, "tester_counter"), "cumulative counters of the tester's agent"),
}

_SOURCE = (*_TRIAL, "edge", "edge_source")
EDGES_GROUP: Mapping[str, Var] = {
    **_scale("edge", "which edge of the trial", TEXT),
    **_scale("edge_source", "side and source", TEXT),
    **_scale("edge_counter", "side, source and counter", TEXT),
    "source_index": Var("<u2", ("edge_counter",), "index into edge_source"),
    "source_present": Var("|u1", _SOURCE, "1: the source was read, 0: it was not"),
    "t0_ns": Var("<i8", _SOURCE, _T0, "ns"),
    "t1_ns": Var("<i8", _SOURCE, _T1, "ns"),
    **_counters("values", (*_TRIAL, "edge", "edge_counter"), "cumulative counters at the edges of the trial"),
}

_FUNCTION = (*_TRIAL, "function")
PROFILE: Mapping[str, Var] = {
    **_scale("function", "kernel function or BPF program, [module] where it is in one; once for each side", TEXT),
    "side": Var("|u1", ("function",), "on whose behalf the function ran", values=PROFILE_SIDES),
    "present": Var("|u1", _TRIAL, "1: the trial's instructions were counted, 0: they were not"),
    "packets": Var("<u8", _TRIAL, "packets that the DUT's program saw in the window"),
    "total_insn": Var("<u8", _TRIAL, "instructions in the window, counted apart from the functions"),
    "insn": Var("<u8", _FUNCTION, "instructions in the window; where the trial was counted a zero is a true one"),
}

MEMORY: Mapping[str, Var] = {
    "present": Var("|u1", _TRIAL, "1: a memory pass counted the trial, 0: none did"),
    "loads": Var("<u8", _FUNCTION, "loads in the window"),
    "stores": Var("<u8", _FUNCTION, "stores in the window"),
    "lines": Var("<u8", _FUNCTION, "distinct cache lines touched in the window"),
}

# The part of a case's group below /cases/<case_id>, "" being that group itself.
CASE_GROUPS: Mapping[str, Mapping[str, Var]] = {
    "": CASE,
    "xsk_app": XSK_APP,
    "other": OTHER,
    "tester": TESTER,
    "edges": EDGES_GROUP,
    "profile": PROFILE,
    "profile/memory": MEMORY,
}

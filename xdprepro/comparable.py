# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether two runs may be compared: what differs between them besides the kernel."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from xdprepro.sample import Run, flatten

# Keys of the flattened fingerprint that change results without being the change under test.
SERIOUS = (
    r"host\.(host_key|cpu_model|cpu_id|machine|cpus|hypervisor|microcode)",
    r"kernel\.(cmdline|mitigations\..*)",
    r"cpu\..*",
    r"sysctl\..*",
    r"(dut|tester)\.port\.(driver|bus_info|firmware|mtu|numa_node|rx_queues|tx_queues|channels\..*|rings\..*)",
    r"(dut|tester)\.port\.features\..*",
    r"agent\.(?!cases\.).*",
    r"lab\.(kind|queues|mtu)",
)
# What every run has said; a run without it is not known to be like the other.
EVERYWHERE = (
    r"host\.(host_key|cpu_model|cpu_id|machine|cpus|hypervisor)",
    r"(dut|tester)\.port\.driver",
    r"agent\..*",
    r"lab\..*",
)
# What differs between any two runs and says nothing about either.
IGNORED = (
    r"absent\..*",
    r"kernel\.boot_id",
    r"host\.memory_bytes",
    r"(dut|tester)\.port\.(ifindex|mac|carrier|absent|kernel|xdp|cpus|can\.\w+\.reason)(\..*)?",
)
# The boot loader names the kernel image here, which is the kernel under test.
IMAGE_WORDS = r"(BOOT_IMAGE|initrd)=\S*\s*"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A part of the fingerprint or a parameter that differs; `case_id` is empty where it concerns every case."""

    key: str
    a: Any
    b: Any
    serious: bool
    case_id: str = ""


def check_comparable(a: Run, b: Run) -> tuple[Mismatch, ...]:
    """Every difference of two runs that is not noise, the serious ones first."""
    found = [*_fingerprint_mismatches(a, b), *_case_mismatches(a, b)]
    return tuple(sorted(found, key=lambda one: (not one.serious, one.case_id, one.key)))


def is_incomparable(mismatches: tuple[Mismatch, ...], case_id: str, *, allow_confounded: bool) -> bool:
    """Whether a case gets no verdict; kinds of lab are never compared, whatever the user allows."""
    serious = [one for one in mismatches if one.serious and one.case_id in ("", case_id)]
    return any(one.key == "lab.kind" or not allow_confounded for one in serious)


def _fingerprint_mismatches(a: Run, b: Run) -> Iterator[Mismatch]:
    """Differences of the machines, their state and their tools; the kind of lab is in the run itself, too."""
    flat_a, flat_b = (flatten(run.fingerprint) | {"lab.kind": run.lab_kind} for run in (a, b))
    for key in sorted(flat_a.keys() | flat_b.keys()):
        values = flat_a.get(key), flat_b.get(key)
        if not _matches(key, IGNORED) and _comparable_value(key, values[0]) != _comparable_value(key, values[1]):
            # Kernels learn new mitigations, features and settings: what only one of them has is part of its change.
            known = None not in values or _matches(key, EVERYWHERE)
            yield Mismatch(key, *values, serious=known and _matches(key, SERIOUS))


def _comparable_value(key: str, value: Any) -> Any:
    """What of a value counts: not the image's name in a command line, not the wording of a mitigation."""
    if not isinstance(value, str):
        return value
    if key.startswith("kernel.mitigations."):
        return value.partition(":")[0].partition(";")[0].strip()
    return re.sub(IMAGE_WORDS, "", value).strip() if key == "kernel.cmdline" else value


def _matches(key: str, patterns: tuple[str, ...]) -> bool:
    return any(re.fullmatch(pattern, key) for pattern in patterns)


def _case_mismatches(a: Run, b: Run) -> Iterator[Mismatch]:
    """Differences in how one case was measured: parameters, and the generator that was really used."""
    for case_id in a.cases:
        if case_id not in b.cases:
            continue
        flat_a, flat_b = (flatten(run.cases[case_id]) for run in (a, b))
        used_a, used_b = (_generators_used(run, case_id) for run in (a, b))
        if used_a and used_b:
            flat_a, flat_b = flat_a | {"generator used": used_a}, flat_b | {"generator used": used_b}
        for key in sorted(flat_a.keys() | flat_b.keys()):
            if flat_a.get(key) != flat_b.get(key):
                yield Mismatch(key, flat_a.get(key), flat_b.get(key), serious=True, case_id=case_id)


def _generators_used(run: Run, case_id: str) -> str:
    """What the tester's agents say they used in the trials that came so far."""
    said = (trial.tester.ready.get("generator", {}) for trial in run.trials if trial.key.case_id == case_id)
    return ", ".join(sorted({one["generator"] for one in said if "generator" in one}))

# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether two runs may be compared: what differs between them besides what is compared, as a rule the kernel."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xdprepro.kconfig import ConfigDiff, diff_configs
from xdprepro.sample import Run, flatten
from xdprepro.stats import is_counted

PORT = r"((dut|tester)\.port|ports\.[\w-]+\.(dut|tester))\."  # a guest has a pair of ports of each kind

# Keys of the flattened fingerprint that change results without being the change under test.
SERIOUS = (
    r"kernel\.(cmdline|compiler)",
    PORT + r"(driver|bus_info|firmware|speed_mbps|mtu|numa_node|rx_queues|tx_queues|channels\..*|rings\..*)",
    PORT + r"features\..*",
    r"agent\.(?!cases\.).*",
    r"lab\.(kind|queues|mtu)",
    r"guest\.(cpu|machine|memory_mib|accel|qemu|plugin_sha256)",
)
# A clock depends on the machine; a count of a guest's instructions is the same on every machine.
SERIOUS_IF_TIMED = (
    r"host\.(host_key|cpu_model|cpu_id|machine|cpus|hypervisor|microcode)",
    r"cpu\..*",
    r"sysctl\..*",
)
# The mitigations of a guest follow from its kernel, command line and CPU model, which are compared themselves.
SERIOUS_ON_THE_MACHINE = (r"kernel\.mitigations\..*",)
# What every run has said; a run without it is not known to be like the other. (A program that only one agent has is in
# none of the cases that both runs have.)
EVERYWHERE = (
    r"host\.(host_key|cpu_model|cpu_id|machine|cpus|hypervisor)",
    PORT + r"driver",
    r"agent\.(?!bpf\.).*",
    r"lab\..*",
    r"guest\..*",
)
# What differs between any two runs, or says once more that the kernels do, or where things lie in the agent's file. The
# configuration is looked at by itself.
IGNORED = (
    r"absent\..*",
    r"kernel\.(boot_id|key|image_sha256|config_sha256)",
    r"host\.memory_bytes",
    r"guest\.(memory_bytes|initramfs\w*)",
    r"agent\.markers\..*",
    PORT + r"(ifindex|mac|carrier|absent|kernel|xdp|cpus|can\.\w+\.reason)(\..*)?",
)
# Names that one of the kernels has not learnt yet, or has forgotten: dozens between any two of them.
UNKNOWN_TO_ONE = (r"ports\.[\w-]+\.(dut|tester)\.features\..*",)
# Not even when the user allows what confounds.
NEVER = ("lab.kind", "guest.accel", "generator", "generator used")
EMULATED = "a processor was emulated: these times are the emulator's, and say nothing of a real one"
# The boot loader names the kernel image here, which is the kernel under test.
IMAGE_WORDS = r"(BOOT_IMAGE|initrd)=\S*\s*"

# What runs of guests are compared in, one of them at a time, and the keys that tell it.
DIMENSIONS: Mapping[str, tuple[str, ...]] = {
    "kernel": ("kernel.release", "kernel.version", "kernel.build_id", "kernel.image_sha256"),
    "command line": ("kernel.cmdline",),
    "CPU model": ("guest.cpu",),
}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A part of the fingerprint or a parameter that differs; `case_id` is empty where it concerns every case."""

    key: str
    a: Any
    b: Any
    serious: bool
    case_id: str = ""


@dataclass(frozen=True, slots=True)
class Dimension:
    """What two runs are compared in, and what it is in each of them."""

    name: str
    a: Any
    b: Any


def check_comparable(a: Run, b: Run) -> tuple[Mismatch, ...]:
    """Every difference of two runs that is not noise, the serious ones first."""
    found = [*_fingerprint_mismatches(a, b), *_config_mismatches(a, b), *_case_mismatches(a, b)]
    return tuple(sorted(found, key=lambda one: (not one.serious, one.case_id, one.key)))


def is_incomparable(mismatches: tuple[Mismatch, ...], case_id: str, *, allow_confounded: bool) -> bool:
    """Whether a case gets no verdict; other labs, figures and senders are never compared, whatever is allowed."""
    return any(one.key in NEVER or not allow_confounded for one in find_serious(mismatches, case_id))


def is_emulated(run: Run) -> bool:
    """Whether what the run timed is the work of an emulator; what it counted is not touched by that."""
    return bool(run.fingerprint.get("guest", {}).get("accel") == "tcg")


def find_serious(mismatches: tuple[Mismatch, ...], case_id: str) -> list[Mismatch]:
    """What confounds a case; a difference of a guest's port concerns only the cases on it."""
    serious = [one for one in mismatches if one.serious and one.case_id in ("", case_id)]
    ports = [re.match(r"ports\.([\w-]+)\.", one.key) for one in serious]
    return [one for one, port in zip(serious, ports, strict=True) if not port or case_id.endswith(f".port-{port[1]}")]


def find_dimensions(a: Run, b: Run) -> tuple[Dimension, ...]:
    """In what two runs of guests differ. Of several, the first is what is compared, and the others confound it."""
    if not ("guest" in a.fingerprint and "guest" in b.fingerprint):
        return ()
    flat_a, flat_b = flatten(a.fingerprint), flatten(b.fingerprint)
    found = []
    for name, keys in DIMENSIONS.items():
        differing = [key for key in keys if _differs(key, flat_a.get(key), flat_b.get(key))]
        found += [Dimension(name, flat_a.get(key), flat_b.get(key)) for key in differing[:1]]
    return tuple(found)


def diff_kernel_configs(a: Run, b: Run) -> ConfigDiff | None:
    """What the kernels were configured differently in; None where one of the runs does not know its own."""
    one, other = (run.documents.get("kernel_config") for run in (a, b))
    return diff_configs(one, other) if one and other else None


def _config_mismatches(a: Run, b: Run) -> Iterator[Mismatch]:
    """One for all symbols. A guest may have any kernel, so one whose configuration is unknown is not like another."""
    diff = diff_kernel_configs(a, b)
    unknown = diff is None and any(one.name == "kernel" for one in find_dimensions(a, b))
    sum_a, sum_b = (run.fingerprint["kernel"].get("config_sha256") for run in (a, b))
    if unknown or sum_a != sum_b:
        yield Mismatch("kernel.config_sha256", sum_a, sum_b, serious=unknown or bool(diff and diff.changed))


def _fingerprint_mismatches(a: Run, b: Run) -> Iterator[Mismatch]:
    """Differences of the machines, their state and their tools; the kind of lab is in the run itself, too."""
    flat_a, flat_b = (flatten(run.fingerprint) | {"lab.kind": run.lab_kind} for run in (a, b))
    serious, ignored = _serious_patterns(a, b), (*IGNORED, *_single_ports(a, b))
    for key in sorted(flat_a.keys() | flat_b.keys()):
        values = flat_a.get(key), flat_b.get(key)
        if None in values and _matches(key, UNKNOWN_TO_ONE):
            continue
        if not _matches(key, ignored) and _differs(key, *values):
            # Kernels learn new mitigations, features and settings: what only one of them has is part of its change.
            known = None not in values or _matches(key, EVERYWHERE)
            yield Mismatch(key, *values, serious=known and _matches(key, serious))


def _serious_patterns(a: Run, b: Run) -> tuple[str, ...]:
    """What must not differ, but for what the runs are compared in."""
    counted = all(any(map(is_counted, run.cases.values())) for run in (a, b))
    guests = "guest" in a.fingerprint and "guest" in b.fingerprint
    compared = {key for one in find_dimensions(a, b)[:1] for key in DIMENSIONS[one.name]}
    others = [rf"(?!{re.escape(key)}$)" for key in sorted(compared)]
    patterns = SERIOUS + (() if counted else SERIOUS_IF_TIMED) + (() if guests else SERIOUS_ON_THE_MACHINE)
    return tuple("".join(others) + pattern for pattern in patterns)


def _single_ports(a: Run, b: Run) -> Iterator[str]:
    """Ports that only one of the runs was measured on, about which there is nothing to compare."""
    ports = [run.fingerprint.get("ports", {}).keys() for run in (a, b)]
    return (rf"ports\.{re.escape(port)}\..*" for port in sorted(ports[0] ^ ports[1]))


def _differs(key: str, a: Any, b: Any) -> bool:
    return bool(_comparable_value(key, a) != _comparable_value(key, b))


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

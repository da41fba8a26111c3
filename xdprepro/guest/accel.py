# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether guests can run on this machine's own processor; a device that opens is no proof, so one is booted."""

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from xdprepro.guest.course import PANIC, Course, run_guest
from xdprepro.guest.qemu import Files, Machine, check_qemu, make_argv
from xdprepro.kernel import Kernel, cache_directory
from xdprepro.scratch import start_scratch

KVM = Path("/dev/kvm")
PROBE_S = 15.0  # a kernel without a file system gives up after one or two seconds under KVM
PROBE_MIB = 512


@dataclass(frozen=True)
class Accel:
    """How to run a guest that is to show rates, and why it is not KVM."""

    name: str
    reason: str = ""


def find_accel(kernel: Kernel, *, cpu: str = "max", deadline_s: float = PROBE_S) -> Accel:
    """`kvm` if this kernel gets through its boot under it, else `tcg`; asked once in a boot of this machine."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    key = f"{boot_id} {check_qemu()} {cpu}"
    cached = cache_directory() / "accel.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        return Accel(**json.loads(cached.read_text())[key])
    found = _try_kvm(kernel, cpu, deadline_s)
    # A cache that cannot be written costs the next command a probe.
    with suppress(OSError):
        cached.parent.mkdir(parents=True, exist_ok=True)
        part = cached.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps({key: asdict(found)}))
        part.rename(cached)
    return found


def _try_kvm(kernel: Kernel, cpu: str, deadline_s: float) -> Accel:
    if not os.access(KVM, os.R_OK | os.W_OK):
        return Accel("tcg", f"{KVM} {'cannot be opened' if KVM.exists() else 'is not there'}")
    with start_scratch() as place:
        files = Files(kernel.image, None, place / "console", place / "results", place / "counts")
        machine = Machine("veth", accel="kvm", cpu=cpu, memory_mib=PROBE_MIB, cmdline="root=none")
        course = run_guest(make_argv(machine, files, {}, {}), files.console, files.results, deadline_s=deadline_s)
    return _judge(course, deadline_s)


def _judge(course: Course, deadline_s: float) -> Accel:
    """The kernel that was left without a file system must have come to say so."""
    if PANIC in course.console:
        return Accel("kvm")
    if course.status is None:
        return Accel("tcg", f"a guest under KVM did not boot within {deadline_s:g} s")
    return Accel("tcg", f"QEMU with KVM ended with status {course.status}{course.last_words}")

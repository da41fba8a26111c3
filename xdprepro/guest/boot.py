# SPDX-License-Identifier: GPL-2.0-or-later
"""One boot of a kernel with the agent in it: from a job to the lines that came back, or to why none did."""

import errno
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdprepro import cmd
from xdprepro.errors import STORAGE, UNAVAILABLE, XdpreproError
from xdprepro.guest.course import PANIC, Course, go_on, run_guest
from xdprepro.guest.initramfs import make_initramfs
from xdprepro.guest.modules import check_modules, find_modules
from xdprepro.guest.ports import PORTS
from xdprepro.guest.qemu import CHANNEL_MODULES, PLUGIN, ROOT, Files, Machine, check_port, check_qemu, make_argv
from xdprepro.guest.unpack import read_vmlinux
from xdprepro.kernel import Kernel
from xdprepro.sample import format_agent_error

# What cases need besides the driver, by how their names begin. A kernel without it fails those cases and no others.
CASE_MODULES: Mapping[str, tuple[str, ...]] = {"tc.": ("sch_ingress", "cls_bpf"), "xsk.local.": ("veth",)}
AGENT = ROOT / "native/build/xdprepro-agent"
MARKERS = ("arm", "open", "close", "app", "table")
ANSWER_S = 15.0  # for the agent's version
HANG_S = 30.0  # a guest that wrote nothing for so long at its deadline hangs; a window under the plugin takes seconds
QUIET_S = 90.0  # and one that wrote nothing for so long is not waited for, however busy this machine is
TAIL_LINES = 20  # of the console, in a failure

Line = dict[str, Any]


@dataclass(frozen=True)
class Failure:
    """Why a boot has no whole result.

    `kind` is panic, hang, slow, aborted, killed, qemu, no_driver, no_bpf, guest_error or no_result; `slow` was still
    at work at its deadline, `aborted` was ended by whoever booted it, `qemu` is QEMU's own refusal.
    """

    kind: str
    message: str
    console_tail: str


@dataclass(frozen=True)
class Boot:
    """What a guest said, and all that went into it. `counts` is the plugin's file, None where nothing was counted."""

    lines: tuple[Line, ...]
    console: str
    argv: tuple[str, ...]
    qemu_version: str
    image_sha256: str
    initramfs_sha256: str
    plugin_sha256: str | None
    failure: Failure | None
    duration_s: float
    counts: Path | None


def boot(
    kernel: Kernel,
    machine: Machine,
    job: Mapping[str, Any],
    *,
    directory: Path,
    deadline_s: float,
    quiet_limit_s: float = QUIET_S,
    aborted: Callable[[], bool] = go_on,
    cases: Iterable[str] = (),
) -> Boot:
    """Run a job (docs/protocol.md, "The micro guest") in a guest; the files of the boot stay in the directory.

    The guest gets the modules of the job's trials, and of `cases` that the job only asks about.

    A guest that fails, that writes nothing for `quiet_limit_s`, or that was `aborted` is a Failure. What cannot be
    tried, without QEMU, a model of the port, the kernel's driver or the agent, raises
    XdpreproError(status=UNAVAILABLE).
    """
    counting = machine.accel == "count" and bool(job.get("count"))
    qemu_version = check_qemu(counting=counting)
    check_port(machine.port)
    markers = read_markers() if counting else {}
    port = PORTS[machine.port]
    wanted = [*CHANNEL_MODULES[machine.channel], *port.modules, port.driver]
    modules = find_modules(kernel, wanted, welcome=_modules_of_cases([*_cases_of(job), *cases]))
    check_modules(kernel, modules)
    job = {**job, "channel": machine.channel}
    initramfs = make_initramfs(_check_built(AGENT), job, modules)
    files = _place_files(kernel, directory, initramfs)
    macs = {end: about["mac"] for end, about in job["ports"].items()}
    argv = make_argv(machine, files, macs, markers)
    course = run_guest(
        argv, files.console, files.results, deadline_s=deadline_s, quiet_limit_s=quiet_limit_s, aborted=aborted
    )
    if files.image != kernel.image:
        files.image.unlink()  # large, and made of the kernel's image
    console = course.console.decode(errors="replace").replace("\r", "")
    lines, damage = _parse_lines(bytes(course.results))
    return Boot(
        lines=lines,
        console=console,
        argv=tuple(argv),
        qemu_version=qemu_version,
        image_sha256=kernel.image_sha256,
        initramfs_sha256=hashlib.sha256(initramfs).hexdigest(),
        plugin_sha256=hashlib.sha256(PLUGIN.read_bytes()).hexdigest() if counting else None,
        failure=_find_failure(course, lines, damage, console, deadline_s),
        duration_s=course.duration_s,
        counts=files.counts if counting else None,
    )


def _cases_of(job: Mapping[str, Any]) -> list[str]:
    duts = (trial["dut"] for trial in job.get("trials", ()))
    return [dut["case"] for dut in duts if "case" in dut]  # an agent that generates has none


def _modules_of_cases(cases: Iterable[str]) -> list[str]:
    names = tuple(cases)
    wanted = (modules for start, modules in CASE_MODULES.items() if any(case.startswith(start) for case in names))
    return [name for modules in wanted for name in modules]


def read_markers() -> dict[str, str]:
    """The agent's addresses that the plugin watches."""
    _check_built(PLUGIN)
    said = json.loads(cmd.run([_check_built(AGENT), "version"], timeout_s=ANSWER_S).stdout)
    return {name: said["markers"][name] for name in MARKERS}


def format_tail(console: str) -> str:
    """The last lines of a console."""
    return "\n".join([line for line in console.splitlines() if line.strip()][-TAIL_LINES:])


def _check_built(path: Path) -> Path:
    if not path.exists():
        raise XdpreproError(f"{path} is missing", hint="run 'make build'", status=UNAVAILABLE)
    return path


def _place_files(kernel: Kernel, directory: Path, initramfs: bytes) -> Files:
    vmlinux = read_vmlinux(kernel.image)
    files = Files(
        image=directory / "vmlinux" if vmlinux else kernel.image,
        initramfs=directory / "initramfs",
        console=directory / "console.txt",
        results=directory / "results.jsonl",
        counts=directory / "counts.txt",
    )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        files.counts.unlink(missing_ok=True)
        (directory / "initramfs").write_bytes(initramfs)
        if vmlinux:
            files.image.write_bytes(vmlinux)
    except OSError as error:
        hint = "free some space there, or set TMPDIR" if error.errno == errno.ENOSPC else "set TMPDIR"
        raise XdpreproError(f"{directory}: {error.strerror}", hint=hint, status=STORAGE) from None
    return files


def _parse_lines(results: bytes) -> tuple[tuple[Line, ...], str]:
    """The objects up to the first line that is none, and that line; a line that was cut off is none, and no damage."""
    lines: list[Line] = []
    for text in results.split(b"\n")[:-1]:
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if not isinstance(line, dict):
            return tuple(lines), repr(text[:200])
        lines.append(line)
    return tuple(lines), ""


def _find_failure(
    course: Course, lines: Iterable[Line], damage: str, console: str, deadline_s: float
) -> Failure | None:
    """The first that is true of a list from what explains most to what explains least."""
    error = next((line["error"] for line in lines if "error" in line), None)
    has_end = any("end" in line for line in lines)
    if PANIC in course.console:
        kind, message = "panic", _find_panic(console)
    elif damage:
        kind, message = "no_result", f"the guest's results have a line that is no JSON object: {damage}"
    elif error:
        kind, message = _error_kind(error), f"guest: {format_agent_error(error)}"
    elif has_end:
        return None
    elif course.status is None:
        kind, message = _explain_end(course, deadline_s)
    elif course.status < 0:
        kind, message = "killed", f"QEMU was ended by signal {-course.status}{course.last_words}"
    elif course.status > 0:
        kind, message = "qemu", f"QEMU ended with status {course.status}{course.last_words}"
    else:
        kind, message = "no_result", "the guest switched itself off before all results were there"
    return Failure(kind, message, format_tail(console))


def _find_panic(console: str) -> str:
    """`Kernel panic - not syncing: reason`, without the time before it."""
    return next(line[line.index(PANIC.decode()) :] for line in console.splitlines() if PANIC.decode() in line)


def _explain_end(course: Course, deadline_s: float) -> tuple[str, str]:
    """Of a guest that we ended."""
    if course.end == "aborted":
        return "aborted", f"the guest was interrupted after {course.duration_s:.0f} s"
    if course.end == "quiet" or course.quiet_s >= min(HANG_S, deadline_s / 2):
        return "hang", f"the guest has not got on for {course.quiet_s:.0f} s, deadline {deadline_s:g} s"
    return "slow", f"the guest was still at work at its deadline of {deadline_s:g} s"


def _error_kind(error: Mapping[str, Any]) -> str:
    if error.get("object") == "kernel" and error.get("step") == "bpf":
        return "no_bpf"
    return "no_driver" if error.get("errno") == errno.ENODEV else "guest_error"

# SPDX-License-Identifier: GPL-2.0-or-later
"""How boots end: kernels that panic, hang, are slow or say what is wrong, and what happens to QEMU itself."""

import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.xdprepro.lab.plugins.module_utils import kernel_cache
from conftest import ROOT
from disks import start_tmpfs
from guest_lab import make_job

from guest.tiny_kernel import CONSOLE, HANG, OFF, RESULTS, make_kernel
from xdprepro import guest
from xdprepro.errors import STORAGE, UNAVAILABLE, XdpreproError
from xdprepro.guest import Boot, Failure, Machine
from xdprepro.kernel import Kernel, KernelError

pytestmark = [pytest.mark.vm, pytest.mark.usefixtures("qemu")]

MACHINE = Machine("veth", accel="tcg", channel="serial", memory_mib=64)
JOB = make_job("veth", count=False)
LONG_S = 60.0
END = '{"end": true}\n'


def run(kernel: Kernel, directory: Path, *, deadline_s: float = LONG_S, machine: Machine = MACHINE) -> Boot:
    return guest.boot(kernel, machine, JOB, directory=directory, deadline_s=deadline_s)


def run_patiently(kernel: Kernel, directory: Path, **options: Any) -> Boot:
    """A boot without a deadline, which must end by itself."""
    limit_s = time.monotonic() + LONG_S

    def give_up() -> bool:
        if time.monotonic() > limit_s:
            pytest.fail("nothing ended the guest")
        return False

    return guest.boot(kernel, MACHINE, JOB, directory=directory, deadline_s=math.inf, aborted=give_up, **options)


def fail(kernel: Kernel, directory: Path, **options: Any) -> Failure:
    """Why a boot failed."""
    failure = run(kernel, directory, **options).failure
    assert failure is not None
    return failure


def test_lines_come_back_and_the_console_stays_apart(tmp_path: Path) -> None:
    kernel = make_kernel(tmp_path / "image", (CONSOLE, "hello\r\n"), (RESULTS, '{"trial": 0}\n' + END), OFF)
    boot = run(kernel, tmp_path)
    assert boot.failure is None
    assert boot.lines == ({"trial": 0}, {"end": True})
    assert "hello\n" in boot.console
    assert "end" not in boot.console
    assert boot.image_sha256 == kernel.image_sha256


def test_kernel_whose_modules_were_changed_is_not_booted(tmp_path: Path) -> None:
    kernel = make_kernel(tmp_path / "image", (RESULTS, END), OFF)
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "modules.dep").touch()
    (modules / "modules.builtin").write_text("kernel/drivers/net/veth.ko\n")
    kernel = replace(kernel, modules=modules, modules_sha256=kernel_cache.write_module_sums(tmp_path))
    assert run(kernel, tmp_path / "good").failure is None
    (modules / "modules.builtin").write_text("kernel/drivers/net/igb/igb.ko\nkernel/drivers/net/veth.ko\n")
    with pytest.raises(KernelError, match=r"modules.builtin is not what was put into the cache"):
        run(kernel, tmp_path / "bad")


def test_guest_that_cannot_switch_off_is_done_when_it_said_so(tmp_path: Path) -> None:
    assert run_patiently(make_kernel(tmp_path / "image", (RESULTS, END), HANG), tmp_path).failure is None


def test_guest_that_hangs_is_told_with_its_last_words(tmp_path: Path) -> None:
    failure = fail(make_kernel(tmp_path / "image", (CONSOLE, "one\ntwo\n")), tmp_path, deadline_s=3)
    assert failure.kind == "hang"
    assert "deadline 3 s" in failure.message
    assert failure.console_tail.endswith("one\ntwo")


def test_guest_that_is_quiet_for_long_is_not_waited_for(tmp_path: Path) -> None:
    failure = run_patiently(make_kernel(tmp_path / "image", (CONSOLE, "one\ntwo\n")), tmp_path, quiet_limit_s=2).failure
    assert failure is not None
    assert failure.kind == "hang"
    assert failure.message.startswith("the guest has not got on for ")
    assert failure.console_tail.endswith("one\ntwo")


def test_guest_that_is_interrupted_is_told_so(tmp_path: Path) -> None:
    kernel = make_kernel(tmp_path / "image", (CONSOLE, "at work\n"))
    said = tmp_path / "console.txt"
    boot = guest.boot(
        kernel,
        MACHINE,
        JOB,
        directory=tmp_path,
        deadline_s=LONG_S,
        aborted=lambda: "at work\n" in said.read_text(errors="replace").replace("\r", ""),
    )
    assert boot.failure is not None
    assert boot.failure.kind == "aborted"
    assert boot.failure.message.startswith("the guest was interrupted after ")
    assert boot.failure.console_tail.endswith("at work")


def test_guest_at_work_at_its_deadline_is_slow(tmp_path: Path) -> None:
    failure = fail(make_kernel(tmp_path / "image", (CONSOLE, "at work\n"), repeat=True), tmp_path, deadline_s=3)
    assert failure.kind == "slow"
    assert "at work" in failure.console_tail


def test_panic_ends_the_wait(tmp_path: Path) -> None:
    text = "[    1.5] Kernel panic - not syncing: No working init found.\n[    1.6] Call Trace:\n"
    boot = run_patiently(make_kernel(tmp_path / "image", (CONSOLE, text)), tmp_path)
    assert boot.failure is not None
    assert (boot.failure.kind, boot.failure.message) == ("panic", "Kernel panic - not syncing: No working init found.")
    assert "Call Trace" in boot.failure.console_tail


def test_kernel_that_panics_is_told(kernel: Kernel, tmp_path: Path) -> None:
    """The real thing: Debian's kernel without an init."""
    failure = fail(kernel, tmp_path, machine=Machine("veth", accel="tcg", cmdline="rdinit=/none root=/dev/none"))
    assert failure.kind == "panic"
    assert failure.message.startswith("Kernel panic - not syncing: VFS: Unable to mount root fs")
    assert "Call Trace" in failure.console_tail


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"object": "igb", "step": "find port", "reason": "No such device", "errno": 19}, "no_driver"),
        ({"object": "kernel", "step": "bpf", "reason": "Function not implemented", "errno": 38}, "no_bpf"),
        ({"object": "dut0", "step": "set MTU", "reason": "Invalid argument", "errno": 22}, "guest_error"),
    ],
)
def test_error_of_the_guest_is_typed(tmp_path: Path, error: dict[str, object], kind: str) -> None:
    failure = fail(make_kernel(tmp_path / "image", (RESULTS, json.dumps({"error": error}) + "\n"), OFF), tmp_path)
    assert failure.kind == kind
    assert failure.message == f"guest: {error['object']}: {error['step']}: {error['reason']}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"trial": 0}\n{"tri', "the guest switched itself off before all results were there"),
        ('{"trial": 0}\n7\n' + END, "the guest's results have a line that is no JSON object: b'7'"),
    ],
)
def test_results_that_are_not_whole_are_no_results(tmp_path: Path, text: str, message: str) -> None:
    boot = run(make_kernel(tmp_path / "image", (RESULTS, text), OFF), tmp_path)
    assert boot.lines == ({"trial": 0},)
    assert boot.failure is not None
    assert (boot.failure.kind, boot.failure.message) == ("no_result", message)


def test_qemu_that_does_not_start_is_told_in_its_own_words(tmp_path: Path) -> None:
    kernel = make_kernel(tmp_path / "image", HANG)
    failure = fail(kernel, tmp_path, machine=Machine("veth", accel="tcg", channel="serial", cpu="no-such-cpu"))
    assert failure.kind == "qemu"
    assert "unable to find CPU model 'no-such-cpu'" in failure.message


def children_of(pid: int) -> Iterator[int]:
    for task in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = task.read_text().rpartition(")")
        except OSError:
            continue
        if int(rest.split()[1]) == pid and "qemu" in name:
            yield int(task.parent.name)


def wait_for_qemu(pid: int, console: Path, text: str) -> int:
    """The QEMU of a process, when its guest has said this."""
    deadline_s = time.monotonic() + LONG_S
    while not (console.exists() and text in console.read_text(errors="replace")):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    (found,) = children_of(pid)
    return found


def test_qemu_that_is_killed_is_told(tmp_path: Path) -> None:
    kernel = make_kernel(tmp_path / "image", (CONSOLE, "ready\n"))
    with ThreadPoolExecutor() as pool:
        future = pool.submit(fail, kernel, tmp_path)
        os.kill(wait_for_qemu(os.getpid(), tmp_path / "console.txt", "ready"), signal.SIGKILL)
        failure = future.result(LONG_S)
    assert failure.kind == "killed"
    assert failure.message == "QEMU was ended by signal 9"
    assert failure.console_tail.endswith("ready")


def test_no_guest_outlives_what_booted_it(tmp_path: Path) -> None:
    make_kernel(tmp_path / "image", (CONSOLE, "ready\n"))
    script = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
from pathlib import Path
from guest.test_boot import run
from guest.tiny_kernel import kernel_of
run(kernel_of(Path({str(tmp_path / "image")!r})), Path({str(tmp_path)!r}))
"""
    with subprocess.Popen([sys.executable, "-c", script]) as parent:
        qemu = wait_for_qemu(parent.pid, tmp_path / "console.txt", "ready")
        fd = os.pidfd_open(qemu)
        parent.kill()
    try:
        # The descriptor of a process can be read when it has ended.
        assert select.select([fd], [], [], LONG_S)[0]
    finally:
        os.close(fd)


def test_agent_that_was_not_built_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["xdprepro.guest.boot"], "AGENT", tmp_path / "no-agent")
    with pytest.raises(XdpreproError, match="no-agent is missing") as raised:
        run(make_kernel(tmp_path / "image", HANG), tmp_path)
    assert (raised.value.hint, raised.value.status) == ("run 'make build'", UNAVAILABLE)


@pytest.mark.usefixtures("root_user")
def test_no_space_for_the_guests_files_is_told(tmp_path: Path) -> None:
    kernel = make_kernel(tmp_path / "image", HANG)
    with start_tmpfs(tmp_path / "full", size_kib=64) as full, pytest.raises(XdpreproError) as raised:
        run(kernel, full / "boot")
    assert raised.value.message == f"{full / 'boot'}: No space left on device"
    assert raised.value.status == STORAGE

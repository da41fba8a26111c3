# SPDX-License-Identifier: GPL-2.0-or-later
"""`xdprepro run` on a lab of guests: what is counted is the same whatever happens around it, and faults are told."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from xdprepro import archive, validity
from xdprepro.errors import FAILED, INTERRUPTED, USAGE
from xdprepro.kernel import Kernel
from xdprepro.sample import Run, TrialKey

pytestmark = pytest.mark.vm

DROP = "xdp.drop.no-touch.native.60B.port-veth"
READ = "xdp.drop.read-data.native.60B.port-veth"
XSK = "xsk.rxdrop.native.copy.60B.wakeup-poll.port-veth"
SHORT, LONG = 1, 2  # trials of a counted case; the first is its warm-up


def run(
    place: Path, *args: str, suite: Path | str = "smoke", cache: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """`cache` keeps what is only for a test out of the user's."""
    place.mkdir(exist_ok=True)
    argv = [sys.executable, "-m", "xdprepro", "run", str(suite), "--archive", str(place), "--json", *args]
    env = os.environ | ({"XDPREPRO_CACHE": str(cache)} if cache else {})
    return subprocess.run(argv, capture_output=True, text=True, timeout=280, stdin=subprocess.DEVNULL, env=env)


def runs_of(done: "subprocess.CompletedProcess[str]") -> list[Run]:
    assert done.returncode == 0, done.stderr
    return [
        archive.load_run(archive.find_run(Path(one["path"]).parent, one["run_id"])) for one in json.loads(done.stdout)
    ]


@pytest.fixture(scope="module")
def twice(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two boots of one kernel, at once."""
    cases = ["--case", "xdp.drop.*", "--case", "xsk*"]
    place = tmp_path_factory.mktemp("twice")
    (one,) = runs_of(run(place, "--lab", "vm", "--kernel", kernel.key, "--repeat", "2", "--jobs", "2", *cases))
    return one


def costs(run: Run, case_id: str, boot: int, side: str) -> dict[str, int]:
    """Instructions of each function in the long window beyond those in the short one."""
    sums: dict[str, int] = {}
    for trial, sign in ((SHORT, -1), (LONG, 1)):
        (one,) = (t for t in run.trials if t.key == TrialKey(case_id, boot, trial))
        assert one.profile is not None
        for row in one.profile.rows:
            if row.side == side:
                sums[row.function] = sums.get(row.function, 0) + sign * row.insn
    return {function: insn for function, insn in sums.items() if insn}


@contextmanager
def start_load() -> Iterator[None]:
    """Keep this machine's CPUs busy with something else."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


@pytest.mark.parametrize("case_id", [DROP, XSK])
def test_second_boot_counts_what_the_first_did(twice: Run, case_id: str) -> None:
    first, second = (costs(twice, case_id, boot, "receive") for boot in (0, 1))
    assert first == second
    assert {validity.trial_flags(trial, twice) for trial in twice.trials if trial.key.case_id == case_id} == {0}
    assert first["bpf:xdp_drop_no_tou (dut)" if case_id == DROP else "__xsk_map_redirect"] > 0


def test_longer_program_moves_its_own_line_and_no_other(twice: Run) -> None:
    """Its instructions beyond the shorter one's are executed once a packet."""
    drop, read = (costs(twice, case_id, 0, "receive") for case_id in (DROP, READ))
    short, long = drop.pop("bpf:xdp_drop_no_tou (dut)"), read.pop("bpf:xdp_drop_read_d (dut)")
    packets = twice.cases[DROP]["packets"][LONG] - twice.cases[DROP]["packets"][SHORT]
    assert drop == read
    assert (long - short) % packets == 0
    assert 0 < (long - short) // packets < 10


def test_run_says_what_was_booted(twice: Run, kernel: Kernel) -> None:
    assert (twice.status, twice.lab_kind) == ("complete", "vm")
    assert [boot.port for boot in twice.boots] == ["veth", "veth"]
    # Chance repeats like everything else in a guest, so equal boots have equal ids.
    assert len({boot.boot_id for boot in twice.boots}) == 1
    assert twice.fingerprint["kernel"]["spec"] == kernel.spec
    assert twice.fingerprint["kernel"]["image_sha256"] == kernel.image_sha256
    assert twice.fingerprint["ports"]["veth"]["dut"]["driver"] == "veth"
    assert {"suite", "kernel_config", "console.boot0", "qemu.boot1"} <= twice.documents.keys()
    assert "xdprepro: run trials" in twice.documents["console.boot0"]


def test_every_packet_was_counted(twice: Run) -> None:
    packets = {trial.key: trial.profile.packets for trial in twice.trials if trial.profile}
    assert [packets[TrialKey(DROP, 0, trial)] for trial in range(3)] == twice.cases[DROP]["packets"]
    assert [packets[TrialKey(XSK, 1, trial)] for trial in range(3)] == twice.cases[XSK]["packets"]


def test_another_history_and_a_busy_machine_change_no_count(twice: Run, kernel: Kernel, tmp_path: Path) -> None:
    """Other memory, another argument, another order and number of guests, and a machine without a free CPU."""
    lab = tmp_path / "other"
    shutil.copytree(ROOT / "inventory/vm", lab)
    settings = lab / "group_vars/all.yml"
    settings.write_text(settings.read_text().replace("lab_memory_mib: 1024", "lab_memory_mib: 700"))
    with start_load():
        done = run(
            tmp_path / "runs",
            *("--lab", str(lab), "--kernel", kernel.key, "--cmdline", "xdprepro.no=1 loglevel=7"),
            *("--case", "xdp.drop.no*", "--case", "xdp.drop.read*"),
        )
    (other,) = runs_of(done)
    assert other.boots[0].cmdline.endswith("xdprepro.no=1 loglevel=7")
    assert costs(other, DROP, 0, "receive") == costs(twice, DROP, 0, "receive")


def test_ports_do_what_their_drivers_can(kernel: Kernel, tmp_path: Path) -> None:
    """6.1 has native XDP for virtio_net, none for vmxnet3 and e1000e; all take a program in skb mode."""
    suite = tmp_path / "modes.toml"
    suite.write_text('[[case]]\ncase = "xdp.drop.no-touch"\nattach_mode = ["native", "skb"]\n')
    ports = ("virtio-net", "vmxnet3", "e1000e")
    args = ("--lab", "vm", "--kernel", kernel.key, *(f"--port={port}" for port in ports))
    (one,) = runs_of(run(tmp_path / "runs", *args, suite=suite))
    measured = {trial.key.case_id for trial in one.trials if trial.status == "ok"}
    native = {port: f"xdp.drop.no-touch.native.60B.port-{port}" for port in ports}
    skb = {f"xdp.drop.no-touch.skb.60B.port-{port}" for port in ports}
    assert measured == {native["virtio-net"], *skb}
    assert one.skipped.keys() == {native["vmxnet3"], native["e1000e"]}
    assert all("has no xdp native" in reason for reason in one.skipped.values())
    packets = {trial.profile.packets for trial in one.trials if trial.key.trial == LONG and trial.profile}
    assert packets == {one.cases[native["virtio-net"]]["packets"][LONG]}


def test_kernel_that_panics_is_a_failed_run_with_its_last_words(kernel: Kernel, tmp_path: Path) -> None:
    args = (
        "--lab",
        "vm",
        "--kernel",
        kernel.key,
        "--cmdline",
        "rdinit=/nothing init=/nothing",
        "--case",
        "xdp.drop.no*",
    )
    done = run(tmp_path / "runs", *args)
    assert done.returncode == FAILED
    (said,) = json.loads(done.stdout)
    assert said["status"] == "failed"
    assert "panic" in done.stderr
    (failed,) = [archive.load_run(archive.find_run(tmp_path / "runs", said["run_id"]))]
    assert {trial.status for trial in failed.trials} == {"failed"}
    assert all("panic" in trial.reason for trial in failed.trials)
    assert "Kernel panic" in failed.documents["console.boot0"]


def test_kernel_without_a_driver_is_skipped_by_name(kernel: Kernel, tmp_path: Path) -> None:
    """Modules of another kernel, without the one that is wanted."""
    assert kernel.modules
    modules = tmp_path / "modules"
    shutil.copytree(kernel.modules, modules, ignore=shutil.ignore_patterns("sound", "fs", "gpu", "media", "igb"))
    dep = modules / "modules.dep"
    dep.write_text("".join(line for line in dep.read_text().splitlines(keepends=True) if "/igb/" not in line))
    spec = f"image:{kernel.image},modules={modules}"
    args = ("--lab", "vm", "--kernel", spec, "--port", "igb", "--case", "xdp.drop.no*")
    done = run(tmp_path / "runs", *args, cache=tmp_path / "cache")
    assert done.returncode == FAILED
    assert "skipped" in done.stderr
    assert "igb" in done.stderr
    assert "nothing was measured" in done.stderr


def test_kernel_that_cannot_open_the_channel_says_so_on_its_console(kernel: Kernel, tmp_path: Path) -> None:
    args = ("--lab", "vm", "--kernel", f"image:{kernel.image}", "--case", "xdp.drop.no*")
    done = run(tmp_path / "runs", *args, cache=tmp_path / "cache")
    assert done.returncode == FAILED
    assert "no_result: " in done.stderr
    assert "console: " in done.stderr


def find_children(pid: int) -> dict[int, list[bytes]]:
    """What the threads of this process started, with the arguments."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    found = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    argvs: dict[int, list[bytes]] = {}
    for child in found:
        with suppress(ProcessLookupError, FileNotFoundError):
            argvs[child] = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
    return argvs


def find_guests(pid: int) -> list[int]:
    """QEMU processes with a kernel, not those that are asked what QEMU can."""
    argvs = find_children(pid)
    return [child for child, argv in argvs.items() if argv[0].endswith(b"qemu-system-x86_64") and b"-kernel" in argv]


def start_run(kernel: Kernel, place: Path, *args: str, **options: Any) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", "xdprepro", "run", "smoke", "--archive", str(place), "--lab", "vm"]
    return subprocess.Popen([*argv, "--kernel", kernel.key, *args], stderr=subprocess.PIPE, text=True, **options)


def wait_until(happened: Callable[[], object], command: "subprocess.Popen[str]", limit_s: float = 60) -> None:
    deadline_s = time.monotonic() + limit_s
    while not happened():
        assert time.monotonic() < deadline_s
        assert command.poll() is None
        time.sleep(0.05)


def test_second_interrupt_ends_the_guests_at_once(kernel: Kernel, tmp_path: Path) -> None:
    command = start_run(kernel, tmp_path, "--repeat", "9")
    wait_until(lambda: find_guests(command.pid), command)
    guests = find_guests(command.pid)
    for _ in range(2):
        command.send_signal(signal.SIGINT)
        time.sleep(0.3)
    said = command.communicate(timeout=30)[1]
    assert command.returncode == INTERRUPTED
    assert "nothing was measured" in said
    assert not any(Path(f"/proc/{guest}").exists() for guest in guests)
    assert not list((tmp_path / "journal").glob("*"))


def test_interrupt_before_the_first_guest_is_told(kernel: Kernel, tmp_path: Path) -> None:
    """While QEMU is asked for its version, which this one never tells."""
    slow = tmp_path / "bin/qemu-system-x86_64"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    path = f"{slow.parent}:{os.environ['PATH']}"
    command = start_run(kernel, tmp_path / "runs", env=os.environ | {"PATH": path})
    wait_until(lambda: [b"sleep", b"60", b""] in find_children(command.pid).values(), command)
    command.send_signal(signal.SIGINT)
    assert command.communicate(timeout=30)[1] == "error: interrupted\n"
    assert command.returncode == INTERRUPTED


def test_boots_that_are_over_outlive_a_kill_and_their_scratch_does_not(kernel: Kernel, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env = os.environ | {"TMPDIR": str(scratch)}
    command = start_run(kernel, tmp_path, "--repeat", "9", "--jobs", "1", "--case", "xdp.drop.no*", env=env)
    wait_until(lambda: list((tmp_path / "journal").glob("*.journal")), command, 200)
    wait_until(lambda: find_guests(command.pid), command)
    guests = find_guests(command.pid)
    command.kill()
    command.communicate()
    assert list(scratch.rglob("initramfs"))
    wrong = [sys.executable, "-m", "xdprepro", "run", "smoke", "--archive", str(tmp_path), "--lab", "vm"]
    assert subprocess.run(wrong, capture_output=True, env=env).returncode == USAGE
    assert list(scratch.iterdir()) == []
    recover = [sys.executable, "-m", "xdprepro", "archive", "recover", "--archive", str(tmp_path)]
    subprocess.run(recover, check=True, capture_output=True)
    (info,) = archive.list_runs(tmp_path)
    left = archive.load_run(info.path)
    assert left.status == "partial"
    assert costs(left, DROP, 0, "receive")
    assert not any(Path(f"/proc/{guest}").exists() for guest in guests)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--lab", "vm"), "none is named"),
        (("--lab", "veth", "--kernel", "deb:6.1"), "--kernel is for labs that boot kernels"),
        (("--lab", "veth", "--memory"), "--memory is for labs that boot kernels"),
        (("--lab", "vm", "--kernel", "deb:6.1", "--port", "e1000"), "--port is 'e1000'"),
        (("--lab", "vm", "--kernel", "deb:6.1", "--accel", "hvf"), "--accel is 'hvf'"),
        (("--lab", "vm", "--kernel", "deb:6.1", "--accel", "tcg", "--memory"), "--memory counts"),
        (("--lab", "vm", "--kernel", "deb:6.1", "--runs", "2"), "--runs has no meaning"),
        (("--lab", "vm", "--kernel", "deb:6.1", "--trials", "2"), "--trials 2"),
        (("--lab", "vm", "--kernel", "deb:6.1", "--generator", "pktgen"), "--generator is 'pktgen'"),
        (("--lab", "vm", "--kernel", "floppy:6.1"), "floppy"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, args: tuple[str, ...], words: str) -> None:
    done: Any = run(tmp_path / "runs", *args)
    assert done.returncode == USAGE
    assert words in done.stderr

# SPDX-License-Identifier: GPL-2.0-or-later
"""Bad input and real faults by the command line: a clear error, its own exit status, nothing left behind."""

import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ROOT, need

from xdprepro import archive
from xdprepro.errors import BUSY, FAILED, INTERRUPTED, PRIVILEGE, STORAGE, UNAVAILABLE, USAGE

pytestmark = pytest.mark.netns

XDPREPRO = [sys.executable, "-m", "xdprepro"]
ONE_CASE = """
restarts = {restarts}
trials = {trials}
[[case]]
case = "xdp.drop.no-touch"
settle_s = 0.05
measure_s = {measure_s}
interval_s = 0.02
"""


@dataclass(frozen=True)
class TestLab:
    """A lab of this test process: its inventory, its archive, its namespaces."""

    __test__ = False

    path: Path
    archive: Path

    @property
    def dut(self) -> str:
        return f"xdprepro-{self.path.name}-dut"

    @property
    def tester(self) -> str:
        return f"xdprepro-{self.path.name}-tester"

    def suite(self, *, restarts: int = 1, trials: int = 1, measure_s: float = 0.1) -> Path:
        path = self.path.parent / "one.toml"
        path.write_text(ONE_CASE.format(restarts=restarts, trials=trials, measure_s=measure_s))
        return path

    def run_args(self, suite: Path | str, *more: str) -> list[str]:
        return ["run", str(suite), "--lab", str(self.path), "--archive", str(self.archive), *more]


def xdprepro(*args: str, timeout_s: float = 120, prefix: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*prefix, *XDPREPRO, *args], capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL
    )


def refused(done: "subprocess.CompletedProcess[str]", status: int, *words: str) -> None:
    """The right status, one error that has all the words, and no traceback."""
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    text = " ".join(done.stderr.split())
    for word in words:
        assert word in text, done.stderr


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, root_user: None, agent: Path) -> Iterator[TestLab]:
    folder = tmp_path_factory.mktemp("faults")
    path = folder / f"f{os.getpid()}"
    shutil.copytree(ROOT / "inventory/veth", path)
    made = TestLab(path, folder / "archive")
    up = xdprepro("up", str(path))
    assert up.returncode == 0, up.stderr
    yield made
    down = xdprepro("down", str(path))
    assert down.returncode == 0, down.stderr
    assert not namespaces(made)


def namespaces(lab: TestLab) -> list[str]:
    return sorted(entry.name for entry in Path("/run/netns").glob(f"xdprepro-{lab.path.name}-*"))


def attached_program(lab: TestLab) -> bool:
    shown = subprocess.run(["ip", "-n", lab.dut, "-d", "link", "show", "dut0"], capture_output=True, text=True)
    return "prog/xdp" in shown.stdout


def sealed(lab: TestLab) -> list[Path]:
    return sorted(lab.archive.glob("*.h5"))


# Bad input


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[case]]\ncase = 'xdp.dorp.no-touch'", ("xdp.dorp.no-touch", "did you mean xdp.drop.no-touch?")),
        ("[[case]]\ncase = 'xdp.drop.no-touch'\nframe_lenn = 60", ("frame_lenn", "did you mean frame_len?")),
        ("[[case]]\ncase = 'xdp.drop.no-touch'\nframe_len = 59", ("frame_len = 59", "60 to 9000")),
        ("[[case]]\ncase = 'xdp.drop.no-touch'\nattach_mode = 'generic'", ("'generic'", "native, skb")),
        ("[[case]\ncase = 1", ("not valid TOML", "line 1")),
        ("title = 'none'", ("no [[case]]",)),
    ],
)
def test_bad_suite_is_a_usage_error(lab: TestLab, tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    suite = tmp_path / "bad.toml"
    suite.write_text(text)
    refused(xdprepro(*lab.run_args(suite)), USAGE, "suite bad", *words)


def test_unknown_suite_lists_those_there_are(lab: TestLab) -> None:
    refused(xdprepro(*lab.run_args("smock")), USAGE, "suite smock", "smoke")


def test_unknown_lab_lists_those_there_are() -> None:
    refused(xdprepro("run", "smoke", "--lab", "vet"), USAGE, "vet", "veth")


def test_pattern_without_a_case_lists_the_cases(lab: TestLab) -> None:
    refused(
        xdprepro(*lab.run_args("smoke", "--case", "xdp.nothing")), USAGE, "xdp.nothing", "xsk.rxdrop.native.copy.60B"
    )


def test_unknown_option_is_a_usage_error() -> None:
    assert xdprepro("run", "smoke", "--lap", "veth").returncode == USAGE


def test_unknown_run_is_a_usage_error(tmp_path: Path) -> None:
    refused(xdprepro("archive", "show", "0000aaaa", "--archive", str(tmp_path)), USAGE, "0000aaaa")


# The lab and the machine


def test_lab_that_is_down_says_how_to_get_it_up(tmp_path: Path, root_user: None, agent: Path) -> None:
    path = tmp_path / f"d{os.getpid()}"
    shutil.copytree(ROOT / "inventory/veth", path)
    done = xdprepro("run", "smoke", "--lab", str(path), "--archive", str(tmp_path / "a"))
    refused(done, FAILED, path.name, f"run 'xdprepro up {path}'")


def test_without_root_the_privilege_is_named(lab: TestLab) -> None:
    need(shutil.which("setpriv") is not None, "no setpriv: install util-linux")
    # Another user, who may still read this checkout and its interpreter wherever they are.
    caps = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
    prefix = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *caps, "env", "HOME=/tmp")
    done = xdprepro(*lab.run_args(lab.suite()), prefix=prefix)
    refused(done, PRIVILEGE, "root")


@pytest.mark.parametrize("name", ["net_admin", "sys_admin"])
def test_root_without_a_capability_is_told_which(lab: TestLab, name: str) -> None:
    done = xdprepro(
        *lab.run_args(lab.suite()), prefix=("setpriv", "--inh-caps", f"-{name}", "--bounding-set", f"-{name}")
    )
    refused(done, PRIVILEGE, f"CAP_{name.upper()}")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["set", "dut0", "down"], "carrier is False"),
        (["set", "dut0", "mtu", "1400"], "MTU is 1400, the lab's is 1500"),
    ],
)
def test_lab_in_the_wrong_state_is_named_and_up_repairs_it(lab: TestLab, change: list[str], words: str) -> None:
    subprocess.run(["ip", "-n", lab.dut, "link", *change], check=True)
    refused(xdprepro(*lab.run_args(lab.suite())), FAILED, "dut0", words, f"xdprepro up {lab.path}")
    assert xdprepro("up", str(lab.path)).returncode == 0
    again = xdprepro(*lab.run_args(lab.suite()))
    assert again.returncode == 0, again.stderr


def test_mtu_too_large_for_native_xdp_is_named(tmp_path: Path, root_user: None, agent: Path) -> None:
    path = tmp_path / f"m{os.getpid()}"
    shutil.copytree(ROOT / "inventory/veth", path)
    variables = path / "group_vars/all.yml"
    text, count = re.subn(r"(?m)^lab_mtu: \d+", "lab_mtu: 9000", variables.read_text())
    assert count == 1
    variables.write_text(text)
    assert xdprepro("up", str(path)).returncode == 0
    try:
        done = xdprepro("run", "smoke", "--lab", str(path), "--archive", str(tmp_path / "a"))
        refused(done, UNAVAILABLE, "dut0 (MTU 9000) has no xdp native", "lab_mtu", "3386")
    finally:
        assert xdprepro("down", str(path)).returncode == 0


def test_capability_the_port_lacks_is_named_and_nothing_is_sealed(lab: TestLab, tmp_path: Path) -> None:
    suite = tmp_path / "zc.toml"
    suite.write_text("[[case]]\ncase = 'xsk.rxdrop'\nbind_mode = 'zero-copy'\n")
    before = sealed(lab)
    refused(xdprepro(*lab.run_args(suite)), UNAVAILABLE, "zero copy", "not supported")
    assert sealed(lab) == before


def test_missing_capability_of_one_case_skips_that_case(lab: TestLab, tmp_path: Path) -> None:
    suite = tmp_path / "two.toml"
    suite.write_text(
        lab.suite().read_text() + "[[case]]\ncase = 'xsk.rxdrop'\nbind_mode = 'zero-copy'\nmeasure_s = 0.1\n"
        "interval_s = 0.02\n"
    )
    done = xdprepro(*lab.run_args(suite, "--json"))
    assert done.returncode == 0, done.stderr
    assert "skipped xsk.rxdrop.native.zero-copy.60B" in done.stderr
    shown = xdprepro("archive", "show", json.loads(done.stdout)[0]["path"], "--json")
    assert "not supported" in json.dumps(json.loads(shown.stdout))


def test_frame_longer_than_the_mtu_is_named(lab: TestLab, tmp_path: Path) -> None:
    suite = tmp_path / "long.toml"
    suite.write_text("[[case]]\ncase = 'xdp.drop.no-touch'\nframe_len = 3000\n")
    refused(xdprepro(*lab.run_args(suite)), UNAVAILABLE, "MTU 1500", "frame_len 3000")


def test_second_copy_is_told_who_has_the_lab(lab: TestLab) -> None:
    first = subprocess.Popen(
        [*XDPREPRO, *lab.run_args(lab.suite(measure_s=5))], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        wait_for(lambda: attached_program(lab))
        refused(xdprepro(*lab.run_args(lab.suite())), BUSY, lab.path.name, str(first.pid))
        refused(xdprepro("down", str(lab.path)), BUSY, lab.path.name, str(first.pid))
    finally:
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=60)
    assert first.returncode == INTERRUPTED


def test_foreign_program_on_the_port_is_named(lab: TestLab) -> None:
    sink = subprocess.Popen(
        ["ip", "netns", "exec", lab.dut, str(ROOT / "native/build/xdprepro-agent"), "trial"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert sink.stdin is not None
    assert sink.stdout is not None
    spec = {
        "role": "sink",
        "case": "xdp.drop.no-touch",
        "ifname": "dut0",
        "attach_mode": "native",
        "settle_s": 0,
        "measure_s": 1,
        "interval_s": 0.1,
        "sampler_cpu": 0,
    }
    sink.stdin.write(json.dumps(spec).encode() + b"\n")
    sink.stdin.flush()
    try:
        assert any(b'"ready"' in line for line in iter(sink.stdout.readline, b""))
        refused(xdprepro(*lab.run_args(lab.suite())), FAILED, "dut0", "XDP program", "attached")
    finally:
        sink.stdin.close()
        sink.wait(10)
        sink.stdout.close()


# The archive


def test_archive_that_cannot_be_made_is_named(lab: TestLab, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = xdprepro("run", str(lab.suite()), "--lab", str(lab.path), "--archive", str(tmp_path / "file/below"))
    refused(done, STORAGE, "file/below")


@pytest.fixture
def small_disk(tmp_path: Path, root_user: None) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_full_disk_is_named_and_what_was_journalled_can_be_recovered(lab: TestLab, small_disk: Path) -> None:
    suite = lab.suite(trials=200)
    done = xdprepro("run", str(suite), "--lab", str(lab.path), "--archive", str(small_disk))
    refused(done, STORAGE, str(small_disk), "No space left")
    assert not attached_program(lab)
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    recovered = xdprepro("archive", "recover", "--archive", str(small_disk))
    assert recovered.returncode == 0, recovered.stderr
    shown = xdprepro("archive", "show", "latest", "--archive", str(small_disk), "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["run"]["status"] == "partial"


def test_read_only_archive_is_named(lab: TestLab, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    done = xdprepro("run", str(lab.suite()), "--lab", str(lab.path), "--archive", str(small_disk))
    refused(done, STORAGE, str(small_disk), "Read-only")


# Ended from outside


def wait_for(condition: object, timeout_s: float = 30) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline_s, "not within the time"
        time.sleep(0.01)


def children(pid: int) -> list[int]:
    """All descendants of a process."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            child = int(entry.parent.name)
            found += [child, *children(child)]
    return found


def agents_of(pid: int) -> list[int]:
    found = []
    for child in children(pid):
        try:
            name = Path(f"/proc/{child}/comm").read_text().strip()
        except OSError:
            continue
        if name.startswith("xdprepro-agent"):
            found.append(child)
    return found


def test_killed_agent_fails_its_trial_only(lab: TestLab) -> None:
    running = subprocess.Popen(
        [*XDPREPRO, *lab.run_args(lab.suite(trials=3, measure_s=1.0), "--json")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: len(agents_of(running.pid)) == 2)
    os.kill(agents_of(running.pid)[0], signal.SIGKILL)
    out, err = running.communicate(timeout=60)
    assert running.returncode == FAILED, err
    outcome = json.loads(out)[0]
    assert (outcome["ok"], outcome["failed"], outcome["status"]) == (2, 1, "complete")
    assert "dut: xdprepro-agent: ended by SIGKILL" in err or "tester: xdprepro-agent: ended by SIGKILL" in err
    assert not attached_program(lab)


def test_interrupt_seals_what_is_complete_as_partial(lab: TestLab) -> None:
    running = subprocess.Popen(
        [*XDPREPRO, *lab.run_args(lab.suite(trials=50, measure_s=0.3), "--json")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: len(agents_of(running.pid)) == 2)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == INTERRUPTED, err
    outcome = json.loads(out)[0]
    assert outcome["status"] == "partial"
    assert outcome["ok"] == 1
    assert not attached_program(lab)
    verified = xdprepro("archive", "verify", outcome["path"])
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_reader_that_goes_away_does_not_end_the_run(lab: TestLab, tmp_path: Path) -> None:
    folder = tmp_path / "piped"
    args = ["run", str(lab.suite(trials=3)), "--lab", str(lab.path), "--archive", str(folder)]
    running = subprocess.Popen([*XDPREPRO, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stderr is not None
    running.stderr.readline()
    running.stderr.close()
    running.stdout.close()
    running.wait(60)
    [sealed_run] = folder.glob("*.h5")
    assert json.loads(sealed_run.with_suffix(".json").read_text())["status"] == "complete"


def test_a_terminal_that_is_closed_stops_the_run_and_seals_it(lab: TestLab, tmp_path: Path) -> None:
    folder = tmp_path / "hung-up"
    args = ["run", str(lab.suite(trials=60)), "--lab", str(lab.path), "--archive", str(folder)]
    controller, terminal = os.openpty()
    running = subprocess.Popen(
        [*XDPREPRO, *args], stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
    )
    os.close(terminal)
    wait_for(lambda: len(agents_of(running.pid)) == 2)
    os.close(controller)
    running.send_signal(signal.SIGHUP)
    running.wait(60)
    assert running.returncode != 0  # the table has nowhere to go, so it need not be INTERRUPTED
    [sealed_run] = folder.glob("*.h5")
    assert json.loads(sealed_run.with_suffix(".json").read_text())["status"] == "partial"
    assert not attached_program(lab)


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_standard_stream_is_no_fault(lab: TestLab, closed: str) -> None:
    number = {"stdout": 1, "stderr": 2}[closed]
    prefix = ("sh", "-c", f'exec "$@" {number}>&-', "sh")
    done = xdprepro(*lab.run_args(lab.suite()), prefix=prefix)
    assert done.returncode == 0, done.stderr


def test_a_full_disk_behind_stdout_is_named(lab: TestLab) -> None:
    done = xdprepro("suite", "show", "smoke", "--json", prefix=("sh", "-c", 'exec "$@" >/dev/full', "sh"))
    refused(done, STORAGE, "standard output: No space left on device")


def test_two_labs_that_measure_at_once_take_turns(lab: TestLab, tmp_path: Path) -> None:
    path = tmp_path / f"t{os.getpid()}"
    shutil.copytree(ROOT / "inventory/veth", path)
    assert xdprepro("up", str(path)).returncode == 0
    other = TestLab(path, tmp_path / "archive")
    try:
        runs = [
            subprocess.Popen(
                [*XDPREPRO, *one.run_args(lab.suite(trials=4, measure_s=0.5), "--json")], stdout=subprocess.PIPE
            )
            for one in (lab, other)
        ]
        paths = [json.loads(run.communicate(timeout=90)[0])[0]["path"] for run in runs]
        spans = [span for name in paths for span in spans_of(Path(name))]
        assert len(spans) == 8
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(sorted(spans)))
    finally:
        assert xdprepro("down", str(path)).returncode == 0


def spans_of(path: Path) -> list[tuple[int, int]]:
    """From the first to the last sample of each trial of a sealed run, CLOCK_MONOTONIC_RAW."""
    samples = [trial.dut.samples for trial in archive.load_run(path).trials]
    return [(one[0].t0_ns, one[-1].t1_ns) for one in samples]


@pytest.mark.timeout(900)
def test_kill_at_random_moments_never_hurts_a_sealed_run_or_blocks_the_next(lab: TestLab) -> None:
    rng = random.Random(int(os.environ.get("XDPREPRO_TEST_SEED", "1")))
    folder = lab.archive.parent / "killed"
    suite = lab.suite(restarts=1, trials=2, measure_s=0.1)
    args = ["run", str(suite), "--lab", str(lab.path), "--archive", str(folder)]
    killed_in_trial = 0
    for round_number in range(30):
        running = subprocess.Popen([*XDPREPRO, *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if round_number % 2:  # in a trial or just after it; else anywhere from the first import to the sealing
            wait_for(lambda pid=running.pid: agents_of(pid) or not alive(pid))
            if round_number % 4 == 1:  # as its agents come, so that enough are met within a trial on any machine
                time.sleep(rng.uniform(0.0, 0.05))
            else:
                time.sleep(rng.uniform(0.0, 1.5))
        else:
            time.sleep(rng.uniform(0.5, 7.0))
        family, agents = children(running.pid), agents_of(running.pid)
        killed_in_trial += bool(agents)
        os.kill(rng.choice([running.pid, *agents]), signal.SIGKILL)
        running.wait(60)
        # None of its children outlives it for long: no agent that holds a program, no playbook that goes on. One that
        # was born after `family` was listed is seen by what it would hold.
        wait_for(lambda gone=family: not any(alive(pid) for pid in gone))
        wait_for(lambda: not attached_program(lab))
        for path in folder.glob("*.h5"):
            verified = xdprepro("archive", "verify", str(path))
            assert verified.returncode == 0, f"round {round_number}: {verified.stdout}{verified.stderr}"
    assert killed_in_trial >= 5
    assert list((folder / "journal").glob("*.journal")) or list(folder.glob("*.h5"))
    again = xdprepro(*args)
    assert again.returncode == 0, again.stderr
    assert not attached_program(lab)
    recovered = xdprepro("archive", "recover", "--archive", str(folder))
    assert recovered.returncode == 0, recovered.stderr
    assert not list((folder / "journal").glob("*.journal"))


def alive(pid: int) -> bool:
    try:
        return re.search(r"^State:\s+[ZX]", Path(f"/proc/{pid}/status").read_text(), re.M) is None
    except OSError:
        return False

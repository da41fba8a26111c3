# SPDX-License-Identifier: GPL-2.0-or-later
"""Finding labs, running playbooks, holding a lab, and being interrupted."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

import pytest
from conftest import ROOT, need

from xdprepro import provision
from xdprepro.cli import labs
from xdprepro.errors import BUSY, FAILED, PRIVILEGE, USAGE, XdpreproError
from xdprepro.lab import Lab

NUMBERS = count()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A copy of the veth lab under a name of its own, not up; gone afterwards, with its lock."""
    path = tmp_path / f"xdpt-{os.getpid()}-p{next(NUMBERS)}"
    shutil.copytree(ROOT / "inventory/veth", path)
    made = provision.load_lab(path)
    yield made
    if any(namespace_exists(made)):
        provision.down(made)
    (provision.LOCKS / f"{made.name}.lock").unlink(missing_ok=True)


@pytest.fixture
def ordinary_user() -> Iterator[None]:
    need(os.geteuid() == 0, "needs root to become an ordinary user: run the tests with sudo")
    os.seteuid(65534)
    yield
    os.seteuid(0)


def namespace_exists(lab: Lab) -> list[bool]:
    return [Path(f"/run/netns/{host.netns}").exists() for host in (lab.dut, lab.tester)]


def start_python(script: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", f"from xdprepro import provision\n{script}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_holder(lab: Lab) -> "subprocess.Popen[str]":
    """Another process that holds the lab until its input ends."""
    holder = start_python(
        f"import sys\nwith provision.start_lock(provision.load_lab({str(lab.path)!r})):\n"
        "    print('held', flush=True)\n    sys.stdin.read()"
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_lab_is_found_by_name_and_by_path(tmp_path: Path) -> None:
    by_name = provision.load_lab("veth")
    assert by_name.name == "veth"
    assert by_name.path == ROOT / "inventory/veth"
    assert provision.load_lab(ROOT / "inventory/veth") == by_name
    link = tmp_path / "linked"
    link.symlink_to(by_name.path)
    assert provision.load_lab(link).dut.netns == "xdprepro-linked-dut"


def test_an_unknown_lab_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(XdpreproError, match=r"^no lab 'vethh'; there are: .*\bveth\b") as caught:
        provision.load_lab("vethh")
    assert caught.value.status == USAGE


def test_a_path_that_is_no_lab_is_named(tmp_path: Path) -> None:
    with pytest.raises(XdpreproError, match=f"^{tmp_path}/nowhere is no directory"):
        provision.load_lab(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(XdpreproError) as caught:
        provision.load_lab(tmp_path / "empty")
    assert caught.value.message.startswith(
        f"{tmp_path}/empty is no inventory: there is no hosts.yml or hosts.yaml in it"
    )
    assert caught.value.status == USAGE


@pytest.mark.parametrize("path", ["/", "/etc"])
def test_a_folder_of_other_things_is_not_read(path: str) -> None:
    with pytest.raises(XdpreproError, match=f"^{path} is no inventory: there is no hosts.yml") as caught:
        provision.load_lab(path)
    assert caught.value.status == USAGE


def test_no_name_is_no_lab() -> None:
    with pytest.raises(XdpreproError, match=r"^no lab ''; there are: .*\bveth\b") as caught:
        provision.load_lab("")
    assert caught.value.status == USAGE


def test_a_dot_is_the_current_directory(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lab.path)
    assert provision.load_lab(".") == lab
    monkeypatch.chdir(lab.path / "group_vars")
    assert provision.load_lab("..") == lab


@pytest.mark.parametrize("name", ["veth", "./veth"])
def test_a_current_directory_that_is_gone_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(XdpreproError, match=r"^the current directory is no longer there$") as caught:
        provision.load_lab(name)
    assert caught.value.status == USAGE


def test_a_name_that_no_file_can_have_is_no_lab() -> None:
    with pytest.raises(XdpreproError, match=r"^no lab 'xxx"):
        provision.load_lab("x" * 5000)


@pytest.mark.usefixtures("root_user")
def test_a_lab_that_is_not_up_says_how_to_get_it_up(lab: Lab) -> None:
    with pytest.raises(XdpreproError) as caught:
        provision.check_up(lab)
    assert caught.value.message == f"lab {lab.name} is not up: no network namespace {lab.dut.netns}"
    assert caught.value.hint == f"run 'xdprepro up {lab.path}'"


@pytest.mark.netns
@pytest.mark.usefixtures("root_user")
def test_a_dry_run_says_what_would_change_and_not_that_the_lab_is_up(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    labs.up(str(lab.path), dry_run=True)
    assert capsys.readouterr().err == f"lab {lab.name}: up would change 2, 2 are as wanted\n"
    labs.up(str(lab.path))
    assert capsys.readouterr().err.startswith(f"lab {lab.name} is up: 2 changed, 3 as wanted, ")
    labs.down(str(lab.path), dry_run=True)
    assert capsys.readouterr().err == f"lab {lab.name}: down would change 1, 1 are as wanted\n"


def test_an_inventory_that_is_no_yaml_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/hosts.yml").write_text("all: [\n")
    with pytest.raises(XdpreproError, match="broken/hosts.yml") as caught:
        provision.load_lab(tmp_path / "broken")
    assert caught.value.status == USAGE


@pytest.mark.netns
@pytest.mark.usefixtures("root_user")
def test_a_failing_task_becomes_an_error_with_host_task_and_message(lab: Lab) -> None:
    variables = lab.path / "group_vars/all.yml"
    variables.write_text(variables.read_text().replace("lab_mtu: 1500", "lab_mtu: 70000"))
    with pytest.raises(XdpreproError) as caught:
        provision.up(lab)
    assert caught.value.message == (
        f"lab {lab.name}: up: dut: Make the pair: MTU 70000 is out of range: the kernel allows 68 to 65535"
    )
    assert caught.value.status == FAILED


@pytest.mark.netns
@pytest.mark.usefixtures("root_user")
def test_ansible_that_fails_before_any_task_is_an_error_with_its_words(lab: Lab) -> None:
    (lab.path / "hosts.yml").write_text("all: [\n")
    with pytest.raises(XdpreproError, match="hosts.yml"):
        provision.up(lab)


@pytest.mark.netns
@pytest.mark.usefixtures("root_user")
def test_a_playbook_that_meets_no_host_is_an_error(lab: Lab) -> None:
    (lab.path / "hosts.yml").write_text("all: {}\n")
    with pytest.raises(XdpreproError, match="hosts"):
        provision.up(lab)


@pytest.mark.netns
@pytest.mark.usefixtures("root_user")
def test_nothing_is_left_in_the_checkout_or_in_the_temporary_directory(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    before = sorted((ROOT / "playbooks").rglob("*"))
    provision.up(lab)
    assert list(temporary.iterdir()) == []
    assert sorted((ROOT / "playbooks").rglob("*")) == before


@pytest.mark.usefixtures("ordinary_user")
@pytest.mark.parametrize("action", ["up", "down", "restart"])
def test_without_root_the_privilege_is_named(action: str) -> None:
    os.seteuid(0)
    lab = provision.load_lab("veth")
    os.seteuid(65534)
    with pytest.raises(XdpreproError, match=f"^lab veth: {action} needs root") as caught:
        getattr(provision, action)(lab)
    assert caught.value.status == PRIVILEGE
    assert "CAP_NET_ADMIN" in caught.value.hint


def test_without_root_a_lab_cannot_be_held(lab: Lab, ordinary_user: None) -> None:
    with pytest.raises(XdpreproError) as caught, provision.start_lock(lab):
        pass
    assert caught.value.status == PRIVILEGE


def test_a_lab_in_use_names_its_user(lab: Lab, root_user: None) -> None:
    holder = start_holder(lab)
    try:
        with pytest.raises(XdpreproError) as caught, provision.start_lock(lab):
            pass
        assert caught.value.status == BUSY
        assert caught.value.message.startswith(f"lab {lab.name} is in use by {holder.pid} (")
    finally:
        holder.communicate()
    with provision.start_lock(lab):
        pass
    assert not (provision.LOCKS / f"{lab.name}.lock").exists()


def test_the_lock_of_a_killed_user_is_free_and_leaves_no_file(lab: Lab, root_user: None) -> None:
    holder = start_holder(lab)
    holder.kill()
    holder.communicate()
    with provision.start_lock(lab):
        owner = (provision.LOCKS / f"{lab.name}.lock").read_text()
    assert owner.startswith(f"{os.getpid()} (")
    assert not (provision.LOCKS / f"{lab.name}.lock").exists()


def test_many_at_once_hold_the_lab_one_after_the_other(lab: Lab, root_user: None, tmp_path: Path) -> None:
    """The lock file comes and goes meanwhile; nobody may hold one that is no longer there."""
    script = f"""
import time
from pathlib import Path
from xdprepro.errors import XdpreproError
lab = provision.load_lab({str(lab.path)!r})
for _ in range(100):
    try:
        with provision.start_lock(lab):
            Path({str(tmp_path / "held")!r}).touch(exist_ok=False)
            Path({str(tmp_path / "held")!r}).unlink()
    except XdpreproError:
        pass
"""
    others = [start_python(script) for _ in range(4)]
    for other in others:
        said = other.communicate()
        assert other.returncode == 0, said


def run_xdprepro(*args: str, under: Sequence[str] = (), env: Mapping[str, str] = os.environ) -> tuple[int, str]:
    """Exit status and standard error of the program itself, which `under` may put into surroundings of its own."""
    argv = [*under, sys.executable, "-m", "xdprepro", *args]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env, cwd=ROOT)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr


def test_without_a_path_programs_are_still_found(lab: Lab, root_user: None) -> None:
    env = {key: value for key, value in os.environ.items() if key != "PATH"}
    assert run_xdprepro("--version", env=env) == (0, "")
    assert run_xdprepro("up", str(lab.path), "--dry-run", env=env)[0] == 0


@pytest.mark.netns
@pytest.mark.usefixtures("root_user")
def test_no_home_is_needed_and_nothing_is_written_to_it(lab: Lab, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for path in (home, Path("/dev/null")):
        status, said = run_xdprepro("up", str(lab.path), env=os.environ | {"HOME": str(path)})
        assert status == 0, said
    assert list(home.iterdir()) == []


# What is done to the place of the locks, and what is named then; in a mount namespace, so to nobody else's.
PLACES = {
    "read-only": ("mount -o remount,ro $0", ".lock: Read-only file system"),
    "full": ("head -c 100000 /dev/zero >$0/x", ".lock: No space left on device"),
    "lock is a directory": ("mkdir $0/$1.lock", ".lock: Is a directory"),
    "scratch is a file": ("touch $0/$1.play", ".play: File exists"),
    "little space": ("head -c 57344 /dev/zero >$0/x", ".play: No space left on device"),
}


@pytest.mark.netns
@pytest.mark.usefixtures("root_user")
@pytest.mark.parametrize("place", PLACES)
def test_a_place_for_locks_that_cannot_be_used_is_named(lab: Lab, place: str) -> None:
    change, words = PLACES[place]
    script = f'mount -t tmpfs -o size=64k none "$0" || exit 99\n({change}) 2>&-\nshift; exec "$@"'
    provision.LOCKS.mkdir(exist_ok=True)
    under = ["unshare", "--mount", "sh", "-c", script, str(provision.LOCKS), lab.name]
    status, said = run_xdprepro("up", str(lab.path), under=under)
    assert (status, said.splitlines()[0]) == (FAILED, f"error: lab {lab.name}: {provision.LOCKS}/{lab.name}{words}")
    assert "hint: xdprepro writes to /run/xdprepro " in said
    assert namespace_exists(lab) == [False, False]


def test_arguments_that_are_no_text_are_written_into_the_lock(
    lab: Lab, root_user: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["xdprepro", "run", os.fsdecode(b"a\xff.toml")])
    with provision.start_lock(lab):
        assert (provision.LOCKS / f"{lab.name}.lock").read_bytes().endswith(b"(xdprepro run 'a\xff.toml')")
        with pytest.raises(XdpreproError, match=r"in use by .* \(xdprepro run 'a\\xff.toml'\)$"):
            provision.start_lock(lab).__enter__()


def wait_for_namespaces(lab: Lab) -> None:
    deadline = time.monotonic() + 30
    while not any(namespace_exists(lab)):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def running_with(word: str) -> list[int]:
    """Processes with the word in their command line, zombies apart."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.netns
@pytest.mark.usefixtures("root_user")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_ansible_and_then_ends_the_program(lab: Lab, number: signal.Signals) -> None:
    child = start_python(f"provision.up(provision.load_lab({str(lab.path)!r}))")
    wait_for_namespaces(lab)
    child.send_signal(number)
    _, said = child.communicate(timeout=30)
    assert child.returncode == -number, said
    assert running_with(str(lab.path)) == []
    assert provision.up(lab).changed == 0


@pytest.mark.netns
@pytest.mark.usefixtures("root_user")
def test_a_handler_of_the_callers_stays_and_ansible_ends_its_work(lab: Lab) -> None:
    child = start_python(
        "import signal\nseen = []\nsignal.signal(signal.SIGINT, lambda number, frame: seen.append(number))\n"
        f"provision.up(provision.load_lab({str(lab.path)!r}))\nprint(seen)"
    )
    wait_for_namespaces(lab)
    child.send_signal(signal.SIGINT)
    said, _ = child.communicate(timeout=30)
    assert (child.returncode, said) == (0, "[2]\n")
    assert provision.up(lab).changed == 0


@pytest.mark.netns
@pytest.mark.usefixtures("root_user")
@pytest.mark.parametrize("delay_s", [0, 0.3])
def test_up_mends_what_a_killed_up_left(lab: Lab, delay_s: float) -> None:
    child = start_python(f"provision.up(provision.load_lab({str(lab.path)!r}))")
    wait_for_namespaces(lab)
    time.sleep(delay_s)
    child.kill()
    child.communicate()
    deadline = time.monotonic() + 30
    while running_with(str(lab.path)):  # Ansible hears that its terminal is gone
        assert time.monotonic() < deadline
        time.sleep(0.02)
    provision.up(lab)
    assert provision.up(lab).changed == 0
    provision.down(lab)
    assert namespace_exists(lab) == [False, False]

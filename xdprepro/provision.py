# SPDX-License-Identifier: GPL-2.0-or-later
"""Labs put into their state by Ansible, and held by one user at a time."""

import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import ansible_runner

from xdprepro import cmd
from xdprepro.errors import BUSY, FAILED, INTERRUPTED, PRIVILEGE, USAGE, XdpreproError
from xdprepro.kernel import KernelError, status_of
from xdprepro.lab import LABS, Lab, parse_inventory
from xdprepro.scratch import start_scratch

ROOT = Path(__file__).parent.parent
LOCKS = Path("/run/xdprepro")
INVENTORY_FILES = ("hosts.yml", "hosts.yaml")
BIN = Path(sys.executable).parent
ROOT_HINT = "run it as root: network namespaces and links need CAP_SYS_ADMIN and CAP_NET_ADMIN"
# For links, for namespaces, and for loading programs; the numbers are those of capability(7).
CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_ADMIN": 21}
# Statuses of an ansible-playbook that a signal ended: it has none (ansible-runner keeps no signal), or Ansible's own.
ENDED = (None, 99)
OUTPUT_LINES = 20  # of Ansible's own output, when it failed before any task did

FAILURES = ("runner_on_failed", "runner_item_on_failed", "runner_on_unreachable")
DEFAULT_HANDLERS: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}

ANSIBLE_ENV = {
    "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    "ANSIBLE_INVENTORY_UNPARSED_FAILED": "true",
    "ANSIBLE_NOCOLOR": "true",
    "LC_ALL": "C.UTF-8",  # Ansible refuses to run in another encoding
    "PATH": f"{BIN}:{os.environ.get('PATH') or os.defpath}",
}


# Never a python3 that happens to be first on PATH.
BUILDER_VARS = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
BUILDER = {"all": {"hosts": {"localhost": BUILDER_VARS}}}


@dataclass(frozen=True)
class Provisioned:
    """What a playbook did, summed over the hosts."""

    ok: int
    changed: int
    duration_s: float


def load_lab(name_or_path: str | Path) -> Lab:
    """The lab of that name under inventory/, or of that inventory directory."""
    _check_cwd()
    path = _find_inventory(name_or_path)
    argv: cmd.Argv = [BIN / "ansible-inventory", "--inventory", path, "--list"]
    with start_scratch() as home:
        listed = cmd.run(argv, env=_make_env(home), check=False)
    if listed.status:
        raise XdpreproError(f"lab {path.name}: {path}: {listed.stderr.strip()}", status=USAGE)
    return parse_inventory(json.loads(listed.stdout), path.name, path=path)


def list_labs() -> list[str]:
    return sorted(path.name for path in LABS.iterdir() if path.is_dir())


def up(lab: Lab, *, check: bool = False) -> Provisioned:
    """Put the lab up, or repair it; nothing changes when it is as it should be. `check` only says what would change."""
    return _play(lab, "up", check=check)


def down(lab: Lab, *, check: bool = False) -> Provisioned:
    """Remove what up made; `check` only says what would change."""
    return _play(lab, "down", check=check)


def restart(lab: Lab) -> Provisioned:
    """Make the lab anew, as a reboot would."""
    return _play(lab, "restart")


def play_kernel(
    variables: Mapping[str, Any], directory: Path, *, tell: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Have the builder, which is this machine, provide a kernel: the answer of playbooks/kernel.yml.

    `directory` is for Ansible; the caller holds a lock on it. Unlike a lab's playbook, this one may take long and
    leaves nothing half made that counts: a signal that would end us ends it first.
    """
    told = ""

    def poll() -> None:
        nonlocal told
        with suppress(FileNotFoundError):
            text = progress.read_text()
            if text != told:
                tell(text)
                told = text

    with _start_scratch(directory, "kernel"), _hold_signals(_end_playbooks), _name_path("kernel", directory):
        result, progress = directory / "result.json", directory / "progress"
        everything = {**variables, "kernel_result": str(result), "kernel_progress": str(progress)}
        _run_playbook(
            directory, "kernel", what="kernel", inventory=BUILDER, variables=everything, poll=poll, gently=True
        )
        answer: dict[str, Any] = json.loads(result.read_text())
    if "reason" in answer:
        raise _kernel_error(answer)
    return answer


def check_root(what: str) -> None:
    """Refuse early, before anything is read or made: an ordinary user, or a root without the capabilities it takes."""
    if os.geteuid():
        raise XdpreproError(f"{what} needs root, uid is {os.geteuid()}", hint=ROOT_HINT, status=PRIVILEGE)
    found = re.search(r"^CapEff:\s+([0-9a-f]+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    effective = int(found[1], 16) if found else 0
    missing = [name for name, bit in CAPABILITIES.items() if not effective >> bit & 1]
    if missing:
        raise XdpreproError(
            f"{what} needs {', '.join(missing)}, which root does not have here",
            hint="give them to the container or service that runs it",
            status=PRIVILEGE,
        )


def check_up(lab: Lab) -> None:
    """Refuse a lab whose namespaces are not there."""
    for host in (lab.dut, lab.tester):
        if host.netns and not Path("/run/netns", host.netns).exists():
            raise XdpreproError(
                f"lab {lab.name} is not up: no network namespace {host.netns}", hint=f"run 'xdprepro up {lab.spec}'"
            )


@contextmanager
def start_lock(lab: Lab) -> Iterator[str]:
    """Hold the lab. The kernel drops the lock with the process, however it ends; the file stays if that was a kill.

    Gives who held the lab last and was killed, so that the lab may be in any state, or nothing.
    """
    path = LOCKS / f"{lab.name}.lock"
    with _open_locked(path, lab) as file:
        file.seek(0)
        left_by = _read_owner(file)
        try:
            with _name_path(f"lab {lab.name}", path):
                file.truncate(0)
                file.write(os.fsencode(f"{os.getpid()} ({shlex.join(sys.argv)})"))
            yield left_by
        finally:
            path.unlink(missing_ok=True)


@contextmanager
def start_turn() -> Iterator[None]:
    """Have this machine's CPUs to ourselves among all runs: the trial or restart of another lab waits, or we for it."""
    path = LOCKS / "_turn.lock"  # no lab has this name, as theirs begin with a letter or a digit
    with _name_path("all labs", path):
        LOCKS.mkdir(exist_ok=True)
        file = path.open("a")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _open_locked(path: Path, lab: Lab) -> FileIO:
    with _name_path(f"lab {lab.name}", path):
        path.parent.mkdir(exist_ok=True)
        # Without a buffer, which would hold what a full disk did not take and try again in close().
        file = FileIO(path, "a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = _read_owner(file) or "another process"
        file.close()
        raise XdpreproError(f"lab {lab.name} is in use by {owner}", hint="wait until it ends", status=BUSY) from None
    with suppress(FileNotFoundError):
        if os.path.samestat(path.stat(), os.fstat(file.fileno())):
            return file
    file.close()  # the owner before us removed the file between our open and our lock
    return _open_locked(path, lab)


def _check_cwd() -> None:
    """Ansible asks for the current directory, although nothing is in it for us."""
    try:
        Path.cwd()
    except FileNotFoundError:
        hint = "change into another one"
        raise XdpreproError("the current directory is no longer there", hint=hint, status=USAGE) from None


def _read_owner(file: FileIO) -> str:
    return file.read().decode(errors="backslashreplace")


@contextmanager
def _name_path(what: str, path: Path) -> Iterator[None]:
    """What the file system refuses is for the user to mend: name the path, or `path` where the error has none."""
    try:
        yield
    except OSError as error:
        ordinary = isinstance(error, PermissionError) and os.geteuid()
        raise XdpreproError(
            f"{what}: {error.filename or path}: {error.strerror}",
            hint=ROOT_HINT if ordinary else f"xdprepro writes to {LOCKS} and to the directory for temporary files",
            status=PRIVILEGE if ordinary else FAILED,
        ) from None


def _make_env(home: Path) -> dict[str, str]:
    """Ansible's environment: what it writes goes into `home` and not into the user's."""
    return ANSIBLE_ENV | {
        "ANSIBLE_HOME": str(home),
        "ANSIBLE_LOCAL_TEMP": str(home / "tmp"),
        "ANSIBLE_REMOTE_TEMP": str(home / "remote"),
    }


def _find_inventory(name_or_path: str | Path) -> Path:
    """A name is a directory under inventory/; anything with a slash in it is a path, and so are '.' and '..'."""
    name = str(name_or_path)
    by_path = "/" in name or name in (".", "..")
    # Not resolved: a link to an inventory directory is a lab of the link's name, as it is for Ansible.
    path = Path(os.path.abspath(name)) if by_path else LABS / name  # noqa: PTH100
    if not name or not os.path.isdir(path):  # noqa: PTH112  # is_dir() raises, where a name is too long
        what = f"{path} is no directory" if by_path else f"no lab {name!r}"
    elif not any((path / file).is_file() for file in INVENTORY_FILES):
        # Ansible would read every file below the directory, whatever it is.
        what = f"{path} is no inventory: there is no {' or '.join(INVENTORY_FILES)} in it"
    else:
        return path
    hint = "name one of them, or give the path of an inventory directory"
    raise XdpreproError(f"{what}; there are: {', '.join(list_labs())}", hint=hint, status=USAGE)


def _play(lab: Lab, name: str, *, check: bool = False) -> Provisioned:
    check_root(f"lab {lab.name}: {name}")
    what = f"lab {lab.name}"
    with _start_scratch(LOCKS / f"{lab.name}.play", what) as directory, _hold_signals(), _name_path(what, directory):
        options = ["--check"] if check else []
        return _run_playbook(directory, name, what=f"{what}: {name}", inventory=str(lab.path), options=options)


def _run_playbook(
    directory: Path,
    name: str,
    *,
    what: str,
    inventory: str | Mapping[str, Any],
    options: Sequence[str] = (),
    variables: Mapping[str, Any] | None = None,
    poll: Callable[[], None] = lambda: None,
    gently: bool = False,
) -> Provisioned:
    """`poll` is called about once a second; `gently` is for a playbook that deals with its failures by itself."""
    # Orphaned by a kill -9, ansible-playbook would wait for its workers forever: it is to end with us. SIGTERM reaches
    # them, too, which is right only where they leave nothing half made.
    argv = ["--pdeathsig", "TERM" if gently else "KILL", str(BIN / "ansible-playbook"), f"{name}.yml", *options]
    events: list[dict[str, Any]] = []
    begin = time.monotonic()

    def go_on() -> bool:
        poll()
        return False

    done = ansible_runner.run(
        private_data_dir=str(directory),
        project_dir=str(ROOT / "playbooks"),
        binary="setpriv",
        cmdline=shlex.join(argv),
        inventory=inventory,
        extravars=variables,
        envvars=_make_env(directory / "home"),
        settings={"pexpect_timeout": 1},
        quiet=True,
        event_handler=events.append,
        cancel_callback=go_on,
    )
    output = done.stdout.read()
    if done.rc in ENDED:
        fact = f"{what}: interrupted: ansible-playbook was ended by a signal before it was through"
        raise XdpreproError(fact, hint="run the command again", status=INTERRUPTED)
    failures = _failures(events)
    ok, changed = (_count(events, key) for key in ("ok", "changed"))
    if done.rc or not ok or (failures and not gently):
        raise XdpreproError(f"{what}: {failures or _tail(output)}")
    return Provisioned(ok=ok, changed=changed, duration_s=time.monotonic() - begin)


@contextmanager
def _start_scratch(directory: Path, what: str) -> Iterator[Path]:
    """ansible-runner's folder, at a known place: what a kill -9 leaves of it is removed by the next playbook."""
    shutil.rmtree(directory, ignore_errors=True)
    with _name_path(what, directory):
        directory.mkdir(parents=True)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _failures(events: list[dict[str, Any]]) -> str:
    """`host: task: message` of each failure; of a loop, its failed items and not their sum."""
    by_task: dict[tuple[str, str], list[str]] = {}
    for event in events:
        data = event.get("event_data", {})
        if event["event"] not in FAILURES or data.get("ignore_errors"):
            continue
        messages = by_task.setdefault((data["host"], data["task"]), [])
        if event["event"] == "runner_item_on_failed" or not messages:
            messages.append(data["res"].get("msg", json.dumps(data["res"])))
    return "; ".join(f"{host}: {task}: {', '.join(messages)}" for (host, task), messages in by_task.items())


def _count(events: list[dict[str, Any]], key: str) -> int:
    """Ansible's own statistics; none come when it stopped before the first play."""
    stats = [event["event_data"] for event in events if event["event"] == "playbook_on_stats"]
    return sum(sum(stat[key].values()) for stat in stats)


def _tail(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return "\n".join(lines[-OUTPUT_LINES:]) or "Ansible said nothing"


def _kernel_error(answer: Mapping[str, Any]) -> KernelError:
    reason, log = answer["reason"], answer["log"]
    return KernelError(
        answer["message"],
        reason=reason,
        hint=answer["hint"],
        status=status_of(reason),
        log=Path(log) if log else None,
    )


def _end_playbooks() -> None:
    """Ansible passes SIGTERM on to its workers and their modules, which have sessions of their own."""
    for children in Path("/proc/self/task").glob("*/children"):
        for pid in children.read_text().split():
            with suppress(OSError):
                if b"ansible-playbook" in Path("/proc", pid, "cmdline").read_bytes():
                    os.kill(int(pid), signal.SIGTERM)


@contextmanager
def _hold_signals(react: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let Ansible finish, which takes seconds and leaves no lab half made; then let a signal that would end us do so.

    `react` is called when one comes. A handler of the caller's is left alone. Without a cancel_callback, ansible-runner
    would replace it for good.
    """
    held: list[int] = []
    replaced: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        replaced = {number: old for number, old in DEFAULT_HANDLERS.items() if signal.getsignal(number) is old}

    def hold(number: int, _frame: object) -> None:
        held.append(number)
        react()

    for number in replaced:
        signal.signal(number, hold)
    try:
        yield
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])

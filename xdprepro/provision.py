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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import ansible_runner

from xdprepro import cmd
from xdprepro.errors import BUSY, PRIVILEGE, USAGE, XdpreproError
from xdprepro.lab import Lab, parse_inventory

ROOT = Path(__file__).parent.parent
LABS = ROOT / "inventory"
LOCKS = Path("/run/xdprepro")
BIN = Path(sys.executable).parent
ROOT_HINT = "run it as root: network namespaces and links need CAP_SYS_ADMIN and CAP_NET_ADMIN"
# For links, for namespaces, and for loading programs; the numbers are those of capability(7).
CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_ADMIN": 21}
OUTPUT_LINES = 20  # of Ansible's own output, when it failed before any task did

FAILURES = ("runner_on_failed", "runner_item_on_failed", "runner_on_unreachable")
DEFAULT_HANDLERS: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}

ANSIBLE_ENV = {
    "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    "ANSIBLE_INVENTORY_UNPARSED_FAILED": "true",
    "ANSIBLE_NOCOLOR": "true",
    "LC_ALL": "C.UTF-8",  # Ansible refuses to run in another encoding
    "PATH": f"{BIN}:{os.environ['PATH']}",
}


@dataclass(frozen=True)
class Provisioned:
    """What a playbook did, summed over the hosts."""

    ok: int
    changed: int
    duration_s: float


def load_lab(name_or_path: str | Path) -> Lab:
    """The lab of that name under inventory/, or of that inventory directory."""
    path = _find_inventory(name_or_path)
    listed = cmd.run([BIN / "ansible-inventory", "--inventory", path, "--list"], env=ANSIBLE_ENV, check=False)
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


@contextmanager
def start_lock(lab: Lab) -> Iterator[str]:
    """Hold the lab. The kernel drops the lock with the process, however it ends; the file stays if that was a kill.

    Gives who held the lab last and was killed, so that the lab may be in any state, or nothing.
    """
    path = LOCKS / f"{lab.name}.lock"
    with _open_locked(path, lab) as file:
        file.seek(0)
        left_by = file.read()
        file.truncate(0)
        file.write(f"{os.getpid()} ({shlex.join(sys.argv)})")
        file.flush()
        try:
            yield left_by
        finally:
            path.unlink(missing_ok=True)


def _open_locked(path: Path, lab: Lab) -> IO[str]:
    try:
        path.parent.mkdir(exist_ok=True)
        file = path.open("a+")
    except PermissionError as error:
        raise XdpreproError(
            f"lab {lab.name}: {error.filename}: {error.strerror}", hint=ROOT_HINT, status=PRIVILEGE
        ) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read() or "another process"
        file.close()
        raise XdpreproError(f"lab {lab.name} is in use by {owner}", hint="wait until it ends", status=BUSY) from None
    with suppress(FileNotFoundError):
        if os.path.samestat(path.stat(), os.fstat(file.fileno())):
            return file
    file.close()  # the owner before us removed the file between our open and our lock
    return _open_locked(path, lab)


def _find_inventory(name_or_path: str | Path) -> Path:
    """A name is a directory under inventory/; anything with a slash in it is a path."""
    by_path = "/" in str(name_or_path)
    # Not resolved: a link to an inventory directory is a lab of the link's name, as it is for Ansible.
    path = Path(os.path.abspath(name_or_path)) if by_path else LABS / name_or_path  # noqa: PTH100
    if path.is_dir():
        return path
    known = ", ".join(list_labs())
    what = f"{path} is no directory" if by_path else f"no lab {str(name_or_path)!r}"
    raise XdpreproError(
        f"{what}; there are: {known}", hint="name one of them, or give the path of an inventory directory", status=USAGE
    )


def _play(lab: Lab, name: str, *, check: bool = False) -> Provisioned:
    check_root(f"lab {lab.name}: {name}")
    # Orphaned by a kill -9, ansible-playbook would wait for its workers forever: it is to end with us.
    argv = ["--pdeathsig", "KILL", str(BIN / "ansible-playbook"), f"{name}.yml", *(["--check"] if check else [])]
    events: list[dict[str, Any]] = []
    begin = time.monotonic()
    with _start_scratch(lab) as directory, _hold_signals():
        done = ansible_runner.run(
            private_data_dir=str(directory),
            project_dir=str(ROOT / "playbooks"),
            binary="setpriv",
            cmdline=shlex.join(argv),
            inventory=str(lab.path),
            envvars=ANSIBLE_ENV,
            quiet=True,
            event_handler=events.append,
            cancel_callback=lambda: False,
        )
        output = done.stdout.read()
    failures = _failures(events)
    ok, changed = (_count(events, key) for key in ("ok", "changed"))
    if done.rc or failures or not ok:
        raise XdpreproError(f"lab {lab.name}: {name}: {failures or _tail(output)}")
    return Provisioned(ok=ok, changed=changed, duration_s=time.monotonic() - begin)


@contextmanager
def _start_scratch(lab: Lab) -> Iterator[Path]:
    """ansible-runner's folder, at a known place: what a kill -9 leaves of it is removed by the next playbook."""
    directory = LOCKS / f"{lab.name}.play"
    shutil.rmtree(directory, ignore_errors=True)
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


@contextmanager
def _hold_signals() -> Iterator[None]:
    """Let Ansible finish, which takes seconds and leaves no lab half made; then let a signal that would end us do so.

    A handler of the caller's is left alone. Without a cancel_callback, ansible-runner would replace it for good.
    """
    held: list[int] = []
    replaced: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        replaced = {number: old for number, old in DEFAULT_HANDLERS.items() if signal.getsignal(number) is old}
    for number in replaced:
        signal.signal(number, lambda number, _frame: held.append(number))
    try:
        yield
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])

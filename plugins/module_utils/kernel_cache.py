# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache of kernels: entries that are whole or absent, one maker at a time, failures with a reason."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from ansible.module_utils.basic import AnsibleModule

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1
MODULE_SUMS = "modules.sha256"
CHUNK_BYTES = 1 << 20
POLL_S = 0.5
# In front of a host; ssh's user is part of the address, and elsewhere even a name may be a token.
SSH_PASSWORD = re.compile(r"(\bssh://[^/@:\s]+):[^/\s]*(?=@)")
LOGIN = re.compile(r"(?<!\bssh)(://)[^/\s]*@")
TELLING = ("E: ", "fatal: ", "tar: ")  # how apt, git and tar begin the line that says what is wrong

State = dict[str, Any]


class KernelFailure(Exception):
    """What a user can mend: `reason` is one word for scripts."""

    def __init__(self, reason: str, message: str, *, hint: str = "", log: Path | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.hint = hint
        self.log = log


def hide_login(text: str) -> str:
    """The text as it may be kept and shown: its URLs without what logs in."""
    return LOGIN.sub(r"\1", SSH_PASSWORD.sub(r"\1", text))


def run_module(module: AnsibleModule, work: Callable[[State, bool], State]) -> None:
    """Answer with what `work(params, check_mode)` returns, or fail with the reason."""
    try:
        answer = work(module.params, module.check_mode)
    except KernelFailure as failure:
        log = str(failure.log) if failure.log else ""
        module.fail_json(msg=hide_login(str(failure)), reason=failure.reason, hint=hide_login(failure.hint), log=log)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        where = f"{error.filename}: " if error.filename else ""
        module.fail_json(
            msg=f"{where}{error.strerror or error}",
            reason="no_space" if full else "io",
            hint="free some space, or name another directory in XDPREPRO_CACHE" if full else "",
            exception=traceback.format_exc(),
        )
    module.exit_json(**answer)


def tell(progress: str, text: str) -> None:
    """What is being done now, for the person who waits; `progress` is the file for it, or empty."""
    if progress:
        path = Path(progress)
        new = path.with_name(f"{path.name}.new")
        new.write_text(hide_login(text))
        new.replace(path)


@contextmanager
def start_lock(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Be the only one, or one of those who share; the kernel drops the lock with the process.

    The file stays: removing it would be a race.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


def entry_path(cache: Path, key: str) -> Path:
    return cache / "kernels" / key


def is_whole(cache: Path, key: str) -> bool:
    return (entry_path(cache, key) / MANIFEST).exists()


@contextmanager
def start_entry(cache: Path, key: str) -> Iterator[Path | None]:
    """A directory to make the kernel in, which becomes the entry if all goes well; None where there is one already."""
    final = entry_path(cache, key)
    staging = final.with_name(f".{key}.new")
    with start_lock(cache / "locks" / f"{key}.lock"):
        if is_whole(cache, key):
            yield None
            return
        for left in (final, staging):
            shutil.rmtree(left, ignore_errors=True)
        staging.mkdir(parents=True)
        try:
            yield staging
            if not (staging / MANIFEST).exists():
                raise AssertionError(f"{staging}: no manifest was written")
            staging.replace(final)
            sync_directory(final.parent)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def write_manifest(directory: Path, facts: State) -> None:
    """Last of all, when the files are on the disk: the entry counts from now on.

    `facts` has all but what is found by looking.
    """
    names = ("modules", "config", "system_map", "log")
    found = {"modules": "modules", "config": "config", "system_map": "System.map", "log": "build.log"}
    manifest = {
        "manifest_version": MANIFEST_VERSION,
        "image": "vmlinuz",
        "image_sha256": sha256_of(directory / "vmlinuz"),
        **{name: found[name] if (directory / found[name]).exists() else None for name in names},
        "modules_sha256": write_module_sums(directory) if (directory / "modules").exists() else None,
        "compiler": read_compiler(directory / "config"),
        **facts,
        "created_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "size_bytes": size_of(directory),
    }
    run(["sync", "--file-system", directory], what=str(directory))  # one call, for thousands of modules
    path = directory / MANIFEST
    new = path.with_name(f"{MANIFEST}.new")
    with new.open("w") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_directory(directory)


def write_module_sums(directory: Path) -> str:
    """The sums of all that is in `modules`, as `sha256sum --check` reads them; gives the sum of that file."""
    paths = sorted(path for path in (directory / "modules").rglob("*") if path.is_file())
    sums = directory / MODULE_SUMS
    sums.write_text("".join(f"{sha256_of(path)}  {path.relative_to(directory)}\n" for path in paths))
    return sha256_of(sums)


def sync_directory(directory: Path) -> None:
    """Names reach the disk apart from the files that they name."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_compiler(config: Path) -> str | None:
    """What a configuration says of the compiler that it was made for; 5.8 is the first kernel that says it."""
    if not config.exists():
        return None
    for line in config.read_text(errors="replace").splitlines():
        if line.startswith("CONFIG_CC_VERSION_TEXT="):
            return line.partition("=")[2].strip('"')
    return None


def key_of(release: str, *parts: str) -> str:
    """`parts` are all that determines the kernel."""
    return f"{release}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:12]}"


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while some := file.read(CHUNK_BYTES):
            digest.update(some)
    return digest.hexdigest()


def size_of(directory: Path) -> int:
    return sum(path.lstat().st_size for path in directory.rglob("*") if not path.is_dir())


def run(argv: Sequence[str | Path], *, what: str, poll: Callable[[], None] | None = None) -> str:
    """The output of a command, or a failure with the line of stderr that tells why; `poll` is called while it runs."""
    with _start(argv) as child:
        done = _wait(child, poll)
    if child.returncode:
        lines = done[1].strip().splitlines() or [f"exit status {child.returncode}"]
        if any("No space left on device" in line for line in lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), what)
        # What fails because of it comes later.
        telling = next((line for line in lines if line.startswith(TELLING)), lines[-1])
        raise KernelFailure("command_failed", f"{what}: {Path(argv[0]).name}: {telling}")
    return done[0]


@contextmanager
def start_pipe(argv: Sequence[str | Path], *, what: str) -> Iterator[IO[bytes]]:
    """The output of a command as it comes; a command that fails is a failure after all of it was read."""
    with _start(argv, text=False) as child:
        assert child.stdout is not None and child.stderr is not None
        yield child.stdout
        while child.stdout.read(CHUNK_BYTES):
            pass
        errors = child.stderr.read().decode(errors="replace").strip()
    if child.returncode:
        raise KernelFailure("damaged", f"{what}: {errors or child.returncode}")


def _start(argv: Sequence[str | Path], *, text: bool = True) -> subprocess.Popen[Any]:
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    try:
        return subprocess.Popen(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=text,
            errors="replace" if text else None,
            env=environment,
        )
    except FileNotFoundError:
        name = Path(argv[0]).name
        raise KernelFailure("no_tool", f"{name}: not found", hint="run 'make setup'") from None


def _wait(child: subprocess.Popen[str], poll: Callable[[], None] | None) -> tuple[str, str]:
    while True:
        try:
            return child.communicate(timeout=POLL_S if poll else None)
        except subprocess.TimeoutExpired:
            if poll:
                poll()


def show_growth(progress: str, path: Path, *, what: str, size_bytes: int) -> Callable[[], None]:
    """Tell how much of a file is there, each time it is called; a size that is not known is 0."""
    begin_s = time.monotonic()

    def poll() -> None:
        done = path.stat().st_size if path.exists() else 0
        left_s = (time.monotonic() - begin_s) * (size_bytes / done - 1) if done else 0
        left = f", {left_s:.0f} s left" if done else ""
        rest = f" of {size_bytes / 1e6:.0f} MB{left}" if size_bytes else " MB"
        tell(progress, f"{what}: {done / 1e6:.0f}{rest}")

    return poll

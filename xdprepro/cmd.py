# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands that are run to their end, and long-lived ones that speak JSON lines."""

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from xdprepro.errors import UNAVAILABLE, XdpreproError

Argv = Sequence[str | Path]
Json = dict[str, Any]

GRACE_S = 2.0  # for each step of ending a process: end of file, SIGTERM
SHOWN_CHARS = 200  # of a line in an error message
STDERR_BYTES = 64 * 1024  # the end of stderr that is kept
LINE_BYTES = 16 * 1024 * 1024  # a longer line is not one of ours


@dataclass(frozen=True)
class Result:
    argv: tuple[str, ...]
    status: int  # negative: the signal that ended it
    stdout: str
    stderr: str


def run(
    argv: Argv,
    *,
    netns: str | None = None,
    input: str | None = None,
    timeout_s: float | None = None,
    check: bool = True,
    env: Mapping[str, str] | None = None,
) -> Result:
    """Run to the end, in a namespace if one is named; `check` makes an exit status other than 0 an XdpreproError.

    `env` is added to the environment; messages are in English always.
    """
    program = _program(argv)
    with _missing_program(program):
        try:
            done = subprocess.run(
                _in_netns(argv, netns),
                input=input,
                stdin=subprocess.DEVNULL if input is None else None,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                env=_environment(env),
            )
        except subprocess.TimeoutExpired:
            raise XdpreproError(f"{program}: not done after {timeout_s:g} s") from None
    if check and done.returncode:
        raise XdpreproError(f"{program}: {_how_it_ended(done.returncode)}{_last_words(done.stderr)}")
    return Result(tuple(map(str, argv)), done.returncode, done.stdout, done.stderr)


class Process:
    """A running child that reads and writes one JSON object per line; made by start_process()."""

    def __init__(self, program: str, child: "subprocess.Popen[bytes]", stderr: IO[bytes]) -> None:
        self.program = program
        self.pid = child.pid
        self._child = child
        self._stderr = stderr
        self._unread = b""

    def send(self, message: Json) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(message).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def read(self, timeout_s: float) -> Json:
        """The next object; no line in time, the end of the stream and a line that is not an object are errors."""
        line = self._read_line(time.monotonic() + timeout_s)
        if line is None:
            raise XdpreproError(f"{self.program}: no answer within {timeout_s:g} s{_last_words(self.stderr)}")
        return self._parse(line)

    def read_ready(self) -> Json | None:
        """The next object if all of it is there, without waiting; errors as in read()."""
        line = self._read_line(time.monotonic())
        return None if line is None else self._parse(line)

    def fileno(self) -> int:
        """The descriptor to wait on; after it is readable, call read_ready() until it has nothing."""
        assert self._child.stdout is not None
        return self._child.stdout.fileno()

    def _parse(self, line: bytes) -> Json:
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            shown = line.decode(errors="replace")[:SHOWN_CHARS]
            raise XdpreproError(f"{self.program}: not a JSON object: {shown!r}")
        return message

    def wait(self, timeout_s: float) -> int:
        """The exit status of a child that ends by itself."""
        try:
            return self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise XdpreproError(f"{self.program}: still running after {timeout_s:g} s") from None

    @property
    def stderr(self) -> str:
        """The end of what it wrote for people so far."""
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), STDERR_BYTES, max(0, size - STDERR_BYTES)).decode(errors="replace")

    def _read_line(self, deadline: float) -> bytes | None:
        assert self._child.stdout is not None
        fd = self._child.stdout.fileno()
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while b"\n" not in self._unread:
            left_s = deadline - time.monotonic()
            if not poll.poll(max(0, left_s * 1000)):
                return None
            if len(self._unread) > LINE_BYTES:
                raise XdpreproError(f"{self.program}: a line of more than {LINE_BYTES} bytes")
            some = os.read(fd, 65536)
            if not some:
                raise self._ended()
            self._unread += some
        line, self._unread = self._unread.split(b"\n", maxsplit=1)
        return line

    def _ended(self) -> XdpreproError:
        """The stream is over, so the child is dead or about to be."""
        try:
            how = _how_it_ended(self._child.wait(GRACE_S))
        except subprocess.TimeoutExpired:
            how = "closed its output"
        cut = f" in the middle of the line {self._unread[:SHOWN_CHARS]!r}" if self._unread else ""
        return XdpreproError(f"{self.program}: {how}{cut}{_last_words(self.stderr)}")


def read_any(processes: Mapping[str, Process], timeout_s: float) -> tuple[str, Json] | None:
    """The next object of whichever child has one, with its name, or None after the time; errors name the child."""
    deadline_s = time.monotonic() + timeout_s
    poll = select.poll()
    for process in processes.values():
        poll.register(process, select.POLLIN)
    while True:
        for name, process in processes.items():
            try:
                message = process.read_ready()
            except XdpreproError as error:
                raise XdpreproError(f"{name}: {error.message}") from None
            if message is not None:
                return name, message
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            return None
        poll.poll(left_s * 1000)


@contextmanager
def start_process(argv: Argv, *, netns: str | None = None) -> Iterator[Process]:
    """A child that speaks JSON lines; it is ended on the way out if it has not ended by then.

    It has a session of its own: Ctrl-C is for the controller, which lets a running trial finish.
    """
    program = _program(argv)
    # A file, not a pipe: a child that writes much for people must never wait for us to read it.
    with tempfile.TemporaryFile() as stderr:
        with _missing_program(program):
            child = subprocess.Popen(
                _in_netns(argv, netns),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=_environment(None),
                start_new_session=True,
            )
        try:
            yield Process(program, child, stderr)
        finally:
            _end(child)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End of file first, because it lets the child put everything back; then SIGTERM; then SIGKILL."""
    assert child.stdin is not None and child.stdout is not None
    try:
        with suppress(BrokenPipeError):
            child.stdin.close()
        if not _ends_within(child, GRACE_S):
            child.terminate()
            _ends_within(child, GRACE_S)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def _ends_within(child: "subprocess.Popen[bytes]", limit_s: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        child.wait(limit_s)
    return child.poll() is not None


def _program(argv: Argv) -> str:
    return Path(argv[0]).name


def _in_netns(argv: Argv, netns: str | None) -> list[str]:
    plain = [str(word) for word in argv]
    if netns is None:
        return plain
    if not Path("/run/netns", netns).exists():
        raise XdpreproError(f"no network namespace {netns}")
    return ["ip", "netns", "exec", netns, *plain]


def _environment(more: Mapping[str, str] | None) -> dict[str, str]:
    return os.environ | {"LC_ALL": "C.UTF-8"} | dict(more or {})


@contextmanager
def _missing_program(program: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise XdpreproError(
            f"{error.filename or program}: not found", hint="run 'make setup build'", status=UNAVAILABLE
        ) from None
    except PermissionError as error:
        raise XdpreproError(f"{error.filename or program}: {error.strerror}", status=UNAVAILABLE) from None


def _how_it_ended(status: int) -> str:
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return f"exit status {status}"


def _last_words(stderr: str) -> str:
    lines = stderr.strip().splitlines()
    return f": {lines[-1][:SHOWN_CHARS]}" if lines else ""

# SPDX-License-Identifier: GPL-2.0-or-later
"""The course of one QEMU process: started, followed until it ends or must be ended, and what it left behind."""

import math
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from xdprepro import cmd

STEP_MS = 50  # between two looks at what the guest wrote
OFF_S = 3.0  # from a guest's last word to its end: a kernel without ACPI cannot switch the machine off
READ_BYTES = 16 << 20
PANIC = b"Kernel panic - "
END = b'{"end"'


@dataclass
class Course:
    """What a guest wrote so far; `status` is QEMU's exit status, None where we ended it.

    `end` is why we look no longer: exit, deadline, quiet or aborted.
    """

    console: bytearray = field(default_factory=bytearray)
    results: bytearray = field(default_factory=bytearray)
    status: int | None = None
    stderr: str = ""
    duration_s: float = 0.0
    quiet_s: float = 0.0  # since it last wrote anything
    end: str = ""

    @property
    def last_words(self) -> str:
        """What QEMU said last, as the end of a message about it."""
        lines = self.stderr.strip().splitlines()
        return f": {lines[-1]}" if lines else ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be expected: all was said, or the kernel gave up."""
        return PANIC in self.console or END in self.results[-64:]


def go_on() -> bool:
    """For callers whom nobody interrupts."""
    return False


def run_guest(
    argv: Sequence[str],
    console: Path,
    results: Path,
    *,
    deadline_s: float,
    quiet_limit_s: float = math.inf,
    aborted: Callable[[], bool] = go_on,
) -> Course:
    """Run QEMU until it ends, its guest is over or wrote nothing for too long, the deadline, or `aborted`.

    It never outlives this process.
    """
    course = Course()
    begin_s = last_s = time.monotonic()
    limit_s = begin_s + deadline_s
    with ExitStack() as stack:
        files = [(stack.enter_context(_follow(path)), text) for path, text in _written(course, console, results)]
        process = stack.enter_context(cmd.start_process(["setpriv", "--pdeathsig", "KILL", *argv]))
        ended = stack.enter_context(_wait_for_end(process.pid))
        while not course.end:
            has_ended = bool(ended.poll(STEP_MS))
            got = sum(_take(fd, text) for fd, text in files)
            now_s = time.monotonic()
            if got:
                last_s = now_s
                if course.is_over:
                    limit_s = min(limit_s, now_s + OFF_S)
            if has_ended and not got:
                course.end = "exit"
            elif now_s > limit_s:
                course.end = "deadline"
            elif now_s - last_s > quiet_limit_s:
                course.end = "quiet"
            elif aborted():
                course.end = "aborted"
        course.quiet_s = now_s - last_s
        course.duration_s = now_s - begin_s
        if has_ended:
            course.status = process.wait(OFF_S)
        else:
            # Not reaped yet, so the number is still this process's own.
            os.kill(process.pid, signal.SIGKILL)
        course.stderr = process.stderr
    return course


def _written(course: Course, console: Path, results: Path) -> Iterator[tuple[Path, bytearray]]:
    yield console, course.console
    yield results, course.results


@contextmanager
def _follow(path: Path) -> Iterator[int]:
    """A file to read from while QEMU writes it; QEMU empties it and goes on with the same one."""
    fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _wait_for_end(pid: int) -> Iterator[select.poll]:
    fd = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    try:
        yield poll
    finally:
        os.close(fd)


def _take(fd: int, text: bytearray) -> int:
    """Append what is new, not more at once than leaves time to look at the clock; how much it was."""
    some = os.read(fd, READ_BYTES)
    text += some
    return len(some)

# SPDX-License-Identifier: GPL-2.0-or-later
"""One trial: an agent on the DUT, mostly one on the tester, and every line they say handed on (docs/protocol.md)."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdprepro import cmd
from xdprepro.cases import Case
from xdprepro.errors import XdpreproError
from xdprepro.lab import Host, Lab
from xdprepro.sample import format_agent_error
from xdprepro.specs import Cpus, make_dut_spec, make_tester_spec

AGENT = Path(__file__).parent.parent / "native/build/xdprepro-agent"
ANSWER_S = 15.0  # the longest wait for an answer that does no measuring

Keep = Callable[[str, Mapping[str, Any]], None]


# How the ends are told to end, in this order, and what each answers; `finish` is the last that an agent hears.
Order = tuple[str, str, str]
GENERATED: tuple[Order, ...] = (
    ("tester", "stop", "stopped"),
    ("dut", "stop", "drained"),
    ("tester", "finish", "done"),
    ("dut", "finish", "done"),
)
TRANSMITTED: tuple[Order, ...] = (
    ("dut", "stop", "drained"),
    ("tester", "stop", "drained"),
    ("tester", "finish", "done"),
    ("dut", "finish", "done"),
)
ALONE: tuple[Order, ...] = (("dut", "stop", "drained"), ("dut", "finish", "done"))


@dataclass(frozen=True, slots=True)
class Course:
    """Who takes part in a trial, in the order in which they start and go: who receives is there before who sends."""

    sides: tuple[str, ...]
    orders: tuple[Order, ...]


COURSES: Mapping[str, Course] = {
    "sink": Course(("dut", "tester"), GENERATED),
    "forward": Course(("dut", "tester"), GENERATED),
    "transmit": Course(("tester", "dut"), TRANSMITTED),
    "ring": Course(("dut",), ALONE),
}


def read_probe(host: Host) -> dict[str, Any]:
    """What the port of this host can do, found out by the agent."""
    return _ask_agent(["probe", host.ifname], netns=host.netns)


def read_agent_version() -> dict[str, Any]:
    """What the agent was built from."""
    return _ask_agent(["version"], netns=None)


def run_trial(lab: Lab, case: Case, cpus: Cpus, queues: Sequence[int], keep: Keep) -> None:
    """Measure once; an error says which end failed at what. `keep` gets every message, with the side that said it."""
    course = COURSES[case.role]
    specs = {"dut": make_dut_spec(lab, case, cpus, queues), "tester": make_tester_spec(lab, case, cpus)}
    with ExitStack() as stack:
        stack.enter_context(_start_on(cpus.sampler))
        agents: dict[str, cmd.Process] = {}
        for side in course.sides:
            agents[side] = stack.enter_context(_start_agent(lab, side))
            agents[side].send(specs[side])
            _await(agents, side, "ready", ANSWER_S, keep)
        for side in course.sides:
            agents[side].send({"cmd": "go"})
        _await(agents, "dut", "measured", case.settle_s + case.measure_s + ANSWER_S, keep)
        for side, order, answer in course.orders:
            agents[side].send({"cmd": order})
            _await(agents, side, answer, ANSWER_S, keep)
            if answer == "done":
                del agents[side]  # it ends now, which is no news


def _start_agent(lab: Lab, side: str) -> AbstractContextManager[cmd.Process]:
    host = lab.dut if side == "dut" else lab.tester
    return cmd.start_process([str(AGENT), "trial"], netns=host.netns)


@contextmanager
def _start_on(cpu: int) -> Iterator[None]:
    """Keep all threads of this process, which reads and journals what comes, off the CPUs that are measured."""
    before = os.sched_getaffinity(0)
    _set_affinity({cpu})
    try:
        yield
    finally:
        _set_affinity(before)


def _set_affinity(cpus: Set[int]) -> None:
    for task in Path("/proc/self/task").iterdir():
        # A thread of the progress bar may end between the listing and the call.
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), cpus)


def _await(agents: Mapping[str, cmd.Process], side: str, word: str, timeout_s: float, keep: Keep) -> None:
    """Hand on what all agents say until this one says the word; neither may fill its pipe meanwhile."""
    deadline_s = time.monotonic() + timeout_s
    while (said := cmd.read_any(agents, deadline_s - time.monotonic())) is not None:
        name, message = said
        keep(name, message)
        if "error" in message:
            raise XdpreproError(f"{name}: {format_agent_error(message['error'])}")
        if name == side and word in message:
            return
    raise XdpreproError(f"{side}: the agent did not say {word!r} within {timeout_s:.0f} s")


def _ask_agent(arguments: list[str], *, netns: str | None) -> dict[str, Any]:
    """The one JSON object that the agent answers; its error becomes ours."""
    if not AGENT.exists():
        raise XdpreproError(f"{AGENT} is missing", hint="run 'make build'")
    result = cmd.run([str(AGENT), *arguments], netns=netns, timeout_s=ANSWER_S, check=False)
    try:
        answer: dict[str, Any] = json.loads(result.stdout)
    except ValueError:
        said = (result.stderr or result.stdout).strip() or f"exit status {result.status}"
        raise XdpreproError(f"xdprepro-agent {' '.join(arguments)}: {said}") from None
    if "error" in answer:
        raise XdpreproError(format_agent_error(answer["error"]))
    return answer

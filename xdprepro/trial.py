# SPDX-License-Identifier: GPL-2.0-or-later
"""One trial: an agent on the DUT, one on the tester, and every line they say handed on (docs/protocol.md)."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdprepro import cmd
from xdprepro.cases import Case
from xdprepro.errors import UNAVAILABLE, XdpreproError
from xdprepro.lab import Host, Lab
from xdprepro.sample import format_agent_error

AGENT = Path(__file__).parent.parent / "native/build/xdprepro-agent"
ANSWER_S = 15.0  # the longest wait for an answer that does no measuring

Keep = Callable[[str, Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Cpus:
    """Which CPU does what: one samples, the last ones generate, one runs the AF_XDP application."""

    sampler: int
    app: int
    generators: tuple[int, ...]


def plan_cpus(cpus: Sequence[int], case: Case) -> Cpus:
    """Generators on the last CPUs, the application before them where there is room, the sampler on the first."""
    if case.generators > len(cpus):
        raise XdpreproError(
            f"{case.id}: generators = {case.generators}, this machine has {len(cpus)} CPUs online",
            hint=f"set generators to {len(cpus)} or less",
            status=UNAVAILABLE,
        )
    generators = tuple(cpus[-case.generators :])
    others = [cpu for cpu in cpus if cpu not in generators] or list(cpus)
    return Cpus(sampler=others[0], app=others[-1], generators=generators)


def read_probe(host: Host) -> dict[str, Any]:
    """What the port of this host can do, found out by the agent."""
    return _ask_agent(["probe", host.ifname], netns=host.netns)


def read_agent_version() -> dict[str, Any]:
    """What the agent was built from."""
    return _ask_agent(["version"], netns=None)


def dut_spec(lab: Lab, case: Case, cpus: Cpus, queues: Sequence[int]) -> dict[str, Any]:
    """The spec of the agent under test."""
    spec: dict[str, Any] = {
        "role": case.kind.role,
        "case": case.case,
        "ifname": lab.dut.ifname,
        "attach_mode": case.attach_mode,
        "settle_s": case.settle_s,
        "measure_s": case.measure_s,
        "interval_s": case.interval_s,
        "sampler_cpu": cpus.sampler,
    }
    if case.kind.uses_xsk:
        spec["xsk"] = {
            "bind_mode": case.bind_mode,
            "queues": list(queues),
            "app_cpu": cpus.app,
            "wakeup": "poll" if case.wakeup == "poll" else "busy",
            "batch": case.xsk_batch,
            "ring_rx": case.xsk_ring_rx,
            "ring_fill": case.xsk_ring_rx * 2,
            "frames": case.xsk_ring_rx * 2,
            "frame_size": 2048 if case.frame_len <= 1536 else 4096,
        }
    return spec


def generator_spec(lab: Lab, case: Case, cpus: Cpus) -> dict[str, Any]:
    """The spec of the generator; it also counts what comes back."""
    return {
        "role": "generate",
        "ifname": lab.tester.ifname,
        "attach_mode": "native",
        "interval_s": case.interval_s,
        "sampler_cpu": cpus.sampler,
        "generator": case.generator,
        "cpus": list(cpus.generators),
        "batch": case.generator_batch,
        "count": 0,
        "frame": {
            "dst_mac": lab.dut.mac,
            "src_mac": lab.tester.mac,
            "frame_len": case.frame_len,
            "flows": case.flows,
        },
    }


def run_trial(lab: Lab, case: Case, cpus: Cpus, queues: Sequence[int], keep: Keep) -> None:
    """Measure once; an error says which end failed at what. `keep` gets every message, with the side that said it."""
    with ExitStack() as stack:
        stack.enter_context(_start_on(cpus.sampler))
        agents: dict[str, cmd.Process] = {}
        specs = {"dut": dut_spec(lab, case, cpus, queues), "tester": generator_spec(lab, case, cpus)}
        for side, host in (("dut", lab.dut), ("tester", lab.tester)):
            agents[side] = stack.enter_context(cmd.start_process([str(AGENT), "trial"], netns=host.netns))
            agents[side].send(specs[side])
            _await(agents, side, "ready", ANSWER_S, keep)
        for side in ("dut", "tester"):
            agents[side].send({"cmd": "go"})
        _await(agents, "dut", "measured", case.settle_s + case.measure_s + ANSWER_S, keep)
        for side, order, answer in (
            ("tester", "stop", "stopped"),
            ("dut", "stop", "drained"),
            ("tester", "finish", "done"),
            ("dut", "finish", "done"),
        ):
            agents[side].send({"cmd": order})
            _await(agents, side, answer, ANSWER_S, keep)
            if answer == "done":
                del agents[side]  # it ends now, which is no news


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

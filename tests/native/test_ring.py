# SPDX-License-Identifier: GPL-2.0-or-later
"""The ring benchmark: every entry is checked, the ring is as full as it is asked to be, and it ends when it is told."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agent_lab import Agent, Line, build_program, run
from conftest import need

KINDS = ("ring.head-tail", "ring.ptr-ring", "ring.ptr-ring-batch")
FILLS = ("empty", "half", "full")
SIZE = 1024
EIGHTH = SIZE // 8


@pytest.fixture(autouse=True)
def two_cpus() -> None:
    need(len(os.sched_getaffinity(0)) >= 2, "needs two CPUs")


def ring_spec(case: str, *, measure_s: float = 0.1, **changes: Any) -> Line:
    """A spec of a ring between the first two CPUs."""
    producer, consumer = sorted(os.sched_getaffinity(0))[:2]
    ring = {"size": SIZE, "batch": 16, "fill": "half", "faster": "none"}
    return {
        "role": "ring",
        "case": case,
        "interval_s": 0.02,
        "sampler_cpu": producer,
        "settle_s": 0.02,
        "measure_s": measure_s,
        "ring": ring | {"producer_cpu": producer, "consumer_cpu": consumer} | changes,
    }


@contextmanager
def start_ring(agent: Path, spec: Line) -> Iterator[Agent]:
    """An agent without a namespace, with its spec sent."""
    with subprocess.Popen([agent, "trial"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            started = Agent(process)
            started.send(spec)
            yield started
        finally:
            process.kill()


def run_ring(agent: Path, spec: Line) -> Agent:
    """A whole trial, which ends well."""
    with start_ring(agent, spec) as ring:
        ring.wait_for("ready")
        for command, answer in (("go", "measured"), ("stop", "drained"), ("finish", "done")):
            ring.command(command)
            ring.wait_for(answer)
        assert ring.end() == 0, ring.lines[-1]
        return ring


@pytest.mark.parametrize("batch", [1, 7, 64])
@pytest.mark.parametrize("case", KINDS)
def test_every_entry_comes_out_once_and_in_order(agent: Path, case: str, batch: int) -> None:
    moved = run_ring(agent, ring_spec(case, batch=batch)).moved()
    assert moved["ring.produced"] == moved["ring.consumed"] > 10 * SIZE
    assert moved["ring.errors"] == 0


def occupancy(ring: Agent) -> list[int]:
    """How often the consumer found the ring so full, by eighths, in the measure phase."""
    first, last = (ring.samples("measure")[i]["counters"] for i in (0, -1))
    return [last[f"ring.occupancy_{i}"] - first[f"ring.occupancy_{i}"] for i in range(8)]


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("case", KINDS)
def test_faster_producer_fills_the_ring_to_its_level_and_no_further(agent: Path, case: str, fill: str) -> None:
    ring = run_ring(agent, ring_spec(case, fill=fill, faster="producer"))
    level = {"empty": SIZE // 4, "half": SIZE // 2, "full": SIZE}[fill]
    looks = occupancy(ring)
    assert sum(looks) > 0
    # A ptr_ring is emptied some slots later than it is read, which leaves it a batch below the level or above.
    assert sum(looks[level // EIGHTH + 1 :]) == 0
    assert ring.moved()["ring.errors"] == 0


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("case", KINDS)
def test_faster_consumer_leaves_its_level_in_the_ring(agent: Path, case: str, fill: str) -> None:
    ring = run_ring(agent, ring_spec(case, fill=fill, faster="consumer"))
    level = {"empty": 0, "half": SIZE // 2, "full": SIZE * 3 // 4}[fill]
    looks = occupancy(ring)
    assert sum(looks) > 0
    assert sum(looks[: max(0, level // EIGHTH - 1)]) == 0
    assert ring.moved()["ring.produced"] == ring.moved()["ring.consumed"]


def test_slower_side_alone_is_delayed(agent: Path) -> None:
    for faster, delayed in (("producer", "consumer_delay"), ("consumer", "producer_delay"), ("none", "")):
        with start_ring(agent, ring_spec(KINDS[0], faster=faster)) as ring:
            ready = ring.wait_for("ready")["ring"]
        assert {key for key in ("producer_delay", "consumer_delay") if ready[key]} == ({delayed} - {""})
        assert ready["delay_ns"] == (50 if delayed else 0)


def test_threads_are_where_they_were_asked_to_be(agent: Path) -> None:
    spec = ring_spec(KINDS[0])
    with start_ring(agent, spec) as ring:
        ready = ring.wait_for("ready")["ring"]
    assert {key: ready[key] for key in ("producer_cpu", "consumer_cpu", "size", "batch")} == {
        key: spec["ring"][key] for key in ("producer_cpu", "consumer_cpu", "size", "batch")
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"consumer_cpu": 0, "producer_cpu": 0}, "0 is not another CPU than ring.producer_cpu"),
        ({"size": 100}, "100 is not a power of two from 64 to 1048576"),
        ({"size": 64}, "16 is not at most an eighth of ring.size"),
        ({"batch": 65}, "65 is not an integer from 1 to 64"),
        ({"fill": "brim"}, '"brim" is not one of empty, half, full'),
        ({"faster": "both"}, '"both" is not one of none, producer, consumer'),
        ({"kind": "ptr"}, "unknown key here"),
    ],
)
def test_bad_ring_is_named(agent: Path, change: Line, said: str) -> None:
    with start_ring(agent, ring_spec(KINDS[0], **change)) as ring:
        assert ring.end() == 2
    assert said in ring.lines[-1]["error"]["reason"]


def test_port_has_no_place_in_a_ring(agent: Path) -> None:
    with start_ring(agent, ring_spec(KINDS[0]) | {"ifname": "dut0"}) as ring:
        assert ring.end() == 2
    assert ring.lines[-1]["error"]["step"] == "ifname"


@pytest.mark.parametrize("stage", ["ready", "measure"])
def test_signal_ends_it_at_once(agent: Path, stage: str) -> None:
    with start_ring(agent, ring_spec(KINDS[1], measure_s=60)) as ring:
        ring.wait_for("ready")
        if stage == "measure":
            ring.command("go")
            ring.wait_for("sample")
        ring.process.send_signal(signal.SIGTERM)
        assert ring.end() == 1
    assert ring.lines[-1]["error"]["step"] == "signal"


def test_stop_before_the_end_of_the_measurement_loses_nothing(agent: Path) -> None:
    with start_ring(agent, ring_spec(KINDS[2], measure_s=60)) as ring:
        ring.wait_for("ready")
        ring.command("go")
        ring.wait_for("sample")
        ring.command("stop")
        ring.wait_for("drained")
        ring.command("finish")
        assert ring.end() == 0
    assert ring.moved()["ring.produced"] == ring.moved()["ring.consumed"]
    assert not [line for line in ring.lines if "measured" in line]


@pytest.fixture(scope="module")
def odd_rings(agent: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_program("odd_rings", tmp_path_factory.mktemp("odd_rings"), "-O2")


@pytest.mark.parametrize("name", ["head_tail", "ptr", "ptr_lazily"])
def test_right_ring_has_no_errors(odd_rings: Path, name: str) -> None:
    told = json.loads(run(str(odd_rings), name))
    assert told["produced"] == told["consumed"] >= 200_000
    assert told["errors"] == 0


@pytest.mark.parametrize("name", ["losing", "doubling", "overrunning", "too_soon", "nothing"])
def test_wrong_ring_is_noticed(odd_rings: Path, name: str) -> None:
    assert json.loads(run(str(odd_rings), name))["errors"] > 0

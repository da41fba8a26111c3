# SPDX-License-Identifier: GPL-2.0-or-later
"""The ring benchmark: every entry is checked, the ring is as full as it is asked to be, and it ends when it is told."""

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agent_lab import Agent, Line, build_program, run, total
from conftest import need

KINDS = ("ring.head-tail", "ring.ptr-ring", "ring.ptr-ring-batch")
FILLS = ("empty", "half", "full")
SIZE = 1024
EIGHTH = SIZE // 8


@pytest.fixture(autouse=True)
def two_cpus() -> None:
    need(len(os.sched_getaffinity(0)) >= 2, "needs two CPUs")


def ring_spec(case: str, *, measure_s: float = 60, **changes: Any) -> Line:
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


def run_ring(agent: Path, spec: Line, *, looks: int) -> Counter[str]:
    """What all counters grew by in a trial that goes on until the consumer has looked so often how full the ring is."""
    with start_ring(agent, spec) as ring:
        ring.wait_for("ready")
        ring.command("go")
        while total(Counter(ring.wait_for("sample")["counters"]), "ring.occupancy_", "") < looks:
            continue
        ring.command("stop")
        ring.wait_for("drained")
        ring.command("finish")
        assert ring.end() == 0, ring.lines[-1]
        return ring.moved()


@pytest.mark.parametrize("batch", [1, 7, 64])
@pytest.mark.parametrize("case", KINDS)
def test_every_entry_comes_out_once_and_in_order(agent: Path, case: str, batch: int) -> None:
    # At 64 rounds a look, the ring is gone through some times even by single entries.
    moved = run_ring(agent, ring_spec(case, batch=batch), looks=100)
    assert moved["ring.produced"] == moved["ring.consumed"] > 6 * SIZE
    assert moved["ring.errors"] == 0


def occupancy(moved: Counter[str]) -> list[int]:
    """How often the consumer found the ring so full, by eighths."""
    return [moved[f"ring.occupancy_{i}"] for i in range(8)]


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("case", KINDS)
def test_faster_producer_fills_the_ring_to_its_level_and_no_further(agent: Path, case: str, fill: str) -> None:
    moved = run_ring(agent, ring_spec(case, fill=fill, faster="producer"), looks=20)
    level = {"empty": SIZE // 4, "half": SIZE // 2, "full": SIZE}[fill]
    looks = occupancy(moved)
    # A ptr_ring is emptied some slots later than it is read, which leaves it a batch below the level or above.
    assert sum(looks[level // EIGHTH + 1 :]) == 0
    assert moved["ring.errors"] == 0


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("case", KINDS)
def test_faster_consumer_leaves_its_level_in_the_ring(agent: Path, case: str, fill: str) -> None:
    moved = run_ring(agent, ring_spec(case, fill=fill, faster="consumer"), looks=20)
    level = {"empty": 0, "half": SIZE // 2, "full": SIZE * 3 // 4}[fill]
    looks = occupancy(moved)
    assert sum(looks[: max(0, level // EIGHTH - 1)]) == 0
    assert moved["ring.produced"] == moved["ring.consumed"]


def test_whole_trial_has_the_messages_of_a_sink(agent: Path) -> None:
    with start_ring(agent, ring_spec(KINDS[0], measure_s=0.1)) as ring:
        ring.wait_for("ready")
        for command, answer in (("go", "measured"), ("stop", "drained"), ("finish", "done")):
            ring.command(command)
            ring.wait_for(answer)
        assert ring.end() == 0
    assert [sample["phase"] for sample in ring.lines if "sample" in sample] == ["settle"] + 6 * ["measure"] + ["drain"]
    (edge,) = (line for line in ring.lines if line.get("edge") == "end")
    assert [source["source"] for source in edge["sources"]] == ["ring", "proc_stat"]


def test_threads_never_run_longer_than_time_passes(agent: Path) -> None:
    with start_ring(agent, ring_spec(KINDS[0])) as ring:
        ring.wait_for("ready")
        ring.command("go")
        first, second = (ring.wait_for("sample") for _ in range(2))
    passed_ns = second["t1_ns"] - first["t0_ns"]
    for name in ("ring.producer_run_ns", "ring.consumer_run_ns"):
        assert 0 <= second["counters"][name] - first["counters"][name] <= 1.01 * passed_ns


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
    with start_ring(agent, ring_spec(KINDS[1])) as ring:
        ring.wait_for("ready")
        if stage == "measure":
            ring.command("go")
            ring.wait_for("sample")
        ring.process.send_signal(signal.SIGTERM)
        assert ring.end() == 1
    assert ring.lines[-1]["error"]["step"] == "signal"


def test_stop_before_the_end_of_the_measurement_loses_nothing(agent: Path) -> None:
    with start_ring(agent, ring_spec(KINDS[2])) as ring:
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
    assert told["produced"] == told["consumed"] >= 100_000
    assert told["errors"] == 0


@pytest.mark.parametrize("name", ["losing", "doubling", "overrunning", "too_soon", "nothing"])
def test_wrong_ring_is_noticed(odd_rings: Path, name: str) -> None:
    assert json.loads(run(str(odd_rings), name))["errors"] > 0

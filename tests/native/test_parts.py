# SPDX-License-Identifier: GPL-2.0-or-later
"""Parts of the agent in small programs of their own, for what no device does when it is asked to."""

import json
from pathlib import Path

import pytest
from agent_lab import Line, build_program, make_pair, run, run_ethtool


@pytest.fixture(scope="module")
def odd_source(agent: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Line, Line]:
    """An edge and a sample of a source that takes 50 ms for names, with a counter of 2^63."""
    program = build_program("odd_source", tmp_path_factory.mktemp("odd_source"))
    edge, sample = (json.loads(line) for line in run(str(program)).splitlines())
    return edge, sample


def test_counter_that_json_cannot_carry_is_the_only_one_left_out(odd_source: tuple[Line, Line]) -> None:
    edge, sample = odd_source
    kept: Line = {"largest": 2**63 - 1, "next": 7}
    assert [source["counters"] for source in edge["sources"]] == [kept]
    assert edge["absent"] == [{"source": "odd.too_large", "reason": f"{2**63} is above 2^63 - 1"}]
    assert sample["counters"] == {f"odd.{name}": value for name, value in kept.items()}


def test_stamps_hold_the_reading_and_not_the_naming(odd_source: tuple[Line, Line]) -> None:
    edge, sample = odd_source
    for stamps in (edge["sources"][0], sample):
        assert 0 <= stamps["t1_ns"] - stamps["t0_ns"] < 50_000_000


@pytest.mark.netns
def test_counters_that_become_more_meanwhile_are_read_again(agent: Path, root_user: None, tmp_path: Path) -> None:
    program = build_program("channels_change", tmp_path, "-Wl,--wrap=ioctl")
    with make_pair(agent) as pair:
        edges = {}
        for changes in (0, 1, 2, 3, 1000):
            run_ethtool(pair.dut, "-L", "dut0", "rx", "1", "tx", "1")
            edges[changes] = json.loads(run("ip", "netns", "exec", pair.dut, str(program), "dut0", str(changes)))
        names = {changes: names_of(edge) for changes, edge in edges.items()}
    assert "rx_queue_0_xdp_packets" in names[0]
    assert "rx_queue_1_xdp_packets" not in names[0]
    assert "rx_queue_1_xdp_packets" in names[1]
    assert names[2] == names[0]
    assert names[3] == names[1]
    reason = "dut0: ethtool statistics: their number changed in each of 5 tries"
    assert edges[1000]["absent"] == [{"source": "ethtool", "reason": reason}]


def test_page_pools_of_the_port_are_numbered_in_order(agent: Path, tmp_path: Path) -> None:
    program = build_program("page_pools", tmp_path, "-Wl,--wrap=send", "-Wl,--wrap=recv")
    edge = json.loads(run(str(program)))
    assert {source["source"]: source["counters"] for source in edge["sources"]} == {
        "page_pool": {
            "pool0.inflight": 50,
            "pool0.inflight_mem": 5_000_000_040,
            "pool1.inflight": 51,
            "pool1.inflight_mem": 5_000_000_041,
        },
        "page_pool_stats": {
            "pool0.alloc_fast": 140,
            "pool0.recycle_released_refcnt": 6_000_000_040,
            "pool1.alloc_fast": 141,
            "pool1.recycle_released_refcnt": 6_000_000_041,
        },
    }
    assert edge["absent"] == []


def names_of(edge: Line) -> set[str]:
    """The names of all counters of an edge."""
    return {name for source in edge["sources"] for name in source["counters"]}

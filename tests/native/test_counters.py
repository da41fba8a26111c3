# SPDX-License-Identifier: GPL-2.0-or-later
"""What is read at the edges beside the packets' own counters, and the passes that look closer."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_lab import (
    CPU_SAMPLER,
    Agent,
    Line,
    Pair,
    generate_spec,
    make_pair,
    measure_spec,
    run,
    run_ethtool,
    run_trial,
    start_agent,
    total,
)

pytestmark = pytest.mark.netns

COUNT = 1000
# The agent in a mount namespace of its own, where a made tree lies over /sys.
OVER_SYS = ("unshare", "--mount", "sh", "-c", 'tree=$0; mount --bind "$tree" /sys && exec "$@"')


@pytest.fixture(scope="module")
def pair(agent: Path, root_user: None) -> Iterator[Pair]:
    with make_pair(agent) as made:
        yield made


def look(pair: Pair, *through: str, ifname: str = "dut0") -> Agent:
    """An agent that has read its start edge."""
    spec = measure_spec("xdp.drop.no-touch", ifname=ifname, attach_mode="skb")
    with start_agent(pair, pair.dut, spec, *through) as dut:
        dut.wait_for("ready")
    return dut


def source(agent: Agent, name: str, edge: str = "start") -> dict[str, int]:
    """The counters of one source at an edge."""
    (line,) = (line for line in agent.lines if line.get("edge") == edge)
    return next((one["counters"] for one in line["sources"] if one["source"] == name), {})


def absent(agent: Agent) -> dict[str, str]:
    """Why sources are not there at the start edge."""
    (line,) = (line for line in agent.lines if line.get("edge") == "start")
    return {entry["source"]: entry["reason"] for entry in line["absent"]}


def ready(agent: Agent) -> Line:
    (line,) = (line for line in agent.lines if "ready" in line)
    return line


# Interrupts


def read_rows(path: str) -> dict[str, dict[int, int]]:
    """A table of /proc by row and CPU."""
    header, *lines = Path(path).read_text().splitlines()
    cpus = [int(word.removeprefix("CPU")) for word in header.split()]
    rows = {}
    for line in lines:
        name, _, rest = line.partition(":")
        counts = [int(word) for word in rest.split()[: len(cpus)] if word.isdecimal()]
        if len(counts) == len(cpus):
            rows[name.strip()] = dict(zip(cpus, counts, strict=True))
    return rows


@pytest.mark.parametrize(("name", "path"), [("softirqs", "/proc/softirqs"), ("interrupts", "/proc/interrupts")])
def test_every_row_is_there_by_cpu(pair: Pair, name: str, path: str) -> None:
    before = read_rows(path)
    counters = source(look(pair), name)
    after = read_rows(path)
    found = {(row, cpu): count for row, counts in before.items() for cpu, count in counts.items() if count}
    assert found
    for (row, cpu), count in found.items():
        (value,) = (v for key, v in counters.items() if re.fullmatch(rf"cpu{cpu}\.{re.escape(row)}(\..*)?", key))
        assert count <= value <= after[row][cpu], (row, cpu)


def test_an_interrupt_has_the_name_of_who_handles_it(pair: Pair) -> None:
    lines = Path("/proc/interrupts").read_text().splitlines()
    handlers = {line.split(":")[0].strip(): line.split()[-1] for line in lines if line.split(":")[0].strip().isdigit()}
    keys = [key.split(".", 2) for key in source(look(pair), "interrupts")]
    named = {number: handler for _, number, handler in (key for key in keys if len(key) == 3)}
    assert named
    assert {number: handler.split()[-1] for number, handler in named.items()} == {n: handlers[n] for n in named}


def test_switches_are_those_of_the_agents_threads(pair: Pair) -> None:
    dut, _ = run_trial(pair, measure_spec("xdp.drop.no-touch"), generate_spec(pair, count=COUNT))
    moved = dut.moved()
    # It sleeps before each sample.
    assert moved["threads.sampler.voluntary_ctxt_switches"] >= len(dut.samples("measure")) - 1
    assert moved["threads.sampler.run_ns"] > 0


def test_the_clock_counts(pair: Pair) -> None:
    dut, _ = run_trial(pair, measure_spec("xdp.drop.no-touch"), generate_spec(pair, count=COUNT))
    if not Path("/sys/bus/event_source/devices/msr/events/tsc").exists():
        assert absent(dut)["msr"].startswith("/sys/bus/event_source/devices/msr: ")
        return
    for cpu in os.sched_getaffinity(0):
        assert dut.moved()[f"msr.cpu{cpu}.tsc"] > 0


# Machines that have more


def write_tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


CPU = "devices/system/cpu"
RESCTRL = "fs/resctrl"
TREE = {
    f"{CPU}/possible": "0-10",
    f"{CPU}/cpu2/cpufreq/scaling_cur_freq": "2400000",
    f"{CPU}/cpu10/cpufreq/scaling_cur_freq": "2399999",
    f"{CPU}/cpu2/thermal_throttle/core_throttle_count": "3",
    f"{CPU}/cpu2/thermal_throttle/package_throttle_total_time_ms": "17",
    "class/powercap/intel-rapl/enabled": "1",
    "class/powercap/intel-rapl:0/name": "package-0",
    "class/powercap/intel-rapl:0/energy_uj": "262143328850",
    "class/powercap/intel-rapl:0/max_energy_range_uj": "262143328850",
    "class/powercap/intel-rapl:0:1/name": "dram",
    "class/powercap/intel-rapl:0:1/energy_uj": "5",
    f"{RESCTRL}/mon_data/mon_L3_00/llc_occupancy": "1048576",
    f"{RESCTRL}/mon_data/mon_L3_00/mbm_total_bytes": "77",
    f"{RESCTRL}/mon_groups/nf/mon_data/mon_L3_01/llc_occupancy": "Unavailable",
    f"{RESCTRL}/mon_groups/nf/mon_data/mon_L3_01/mbm_local_bytes": "78",
    f"{RESCTRL}/half/mon_data/mon_L3_00/llc_occupancy": "4096",
    f"{RESCTRL}/half/mon_groups/rx/mon_data/mon_L3_00/llc_occupancy": "64",
    f"{RESCTRL}/info/L3_MON/num_rmids": "32",
}


def test_power_clocks_heat_and_caches_are_read_where_they_are(pair: Pair, tmp_path: Path) -> None:
    dut = look(pair, *OVER_SYS, str(write_tree(tmp_path, TREE)))
    assert source(dut, "cpufreq") == {"cpu2.scaling_cur_freq": 2400000, "cpu10.scaling_cur_freq": 2399999}
    assert source(dut, "thermal_throttle") == {
        "cpu2.core_throttle_count": 3,
        "cpu2.package_throttle_total_time_ms": 17,
    }
    assert source(dut, "rapl") == {
        "intel-rapl:0.package-0.energy_uj": 262143328850,
        "intel-rapl:0.package-0.max_energy_range_uj": 262143328850,
        "intel-rapl:0:1.dram.energy_uj": 5,
    }
    assert source(dut, "resctrl") == {
        "mon_L3_00.llc_occupancy": 1048576,
        "mon_L3_00.mbm_total_bytes": 77,
        "mon_groups/nf.mon_L3_01.mbm_local_bytes": 78,
        "half.mon_L3_00.llc_occupancy": 4096,
        "half/mon_groups/rx.mon_L3_00.llc_occupancy": 64,
    }
    assert absent(dut)["resctrl.mon_groups/nf.mon_L3_01.llc_occupancy"] == "Unavailable"


def test_each_source_that_is_missing_has_its_reason(pair: Pair, tmp_path: Path) -> None:
    dut = look(pair, *OVER_SYS, str(write_tree(tmp_path, {f"{CPU}/possible": "0-10"})))
    reasons = absent(dut)
    assert reasons["cpufreq"] == "/sys/devices/system/cpu: find: no CPU has cpufreq/scaling_cur_freq"
    assert reasons["thermal_throttle"] == "/sys/devices/system/cpu: find: no CPU has thermal_throttle"
    assert reasons["rapl"] == "/sys/class/powercap: open: No such file or directory"
    assert reasons["resctrl"] == "/sys/fs/resctrl: find: no monitoring data"
    assert reasons["msr"] == "/sys/bus/event_source/devices/msr: find: No such file or directory"
    # The port's own settings are found without /sys, which may be of another namespace anyway.
    assert source(dut, "settings")["napi_defer_hard_irqs"] == 0


def test_counters_of_a_port_that_has_none_are_absent(pair: Pair) -> None:
    reasons = absent(look(pair))
    assert reasons["netdev_queues"] == "dut0: netdev qstats-get: Operation not supported"
    assert reasons["page_pool"].startswith("dut0: netdev page-pool-get: ")
    assert reasons["page_pool_stats"].startswith("dut0: netdev page-pool-stats-get: ")


# Settings


def test_settings_are_those_of_the_port(pair: Pair) -> None:
    settings = source(look(pair), "settings")
    assert (settings["mtu"], settings["channels.rx"], settings["channels.tx"]) == (1500, 2, 2)
    assert (settings["napi_defer_hard_irqs"], settings["gro_flush_timeout"], settings["threaded"]) == (0, 0, 0)
    assert settings["features.rx-gro"] == 0
    run_ethtool(pair.dut, "-K", "dut0", "gro", "on")
    try:
        assert source(look(pair), "settings")["features.rx-gro"] == 1
    finally:
        run_ethtool(pair.dut, "-K", "dut0", "gro", "off")


def test_a_setting_that_is_changed_meanwhile_is_seen(pair: Pair) -> None:
    setting = ("ip", "netns", "exec", pair.dut, "sh", "-c", 'echo "$0" >/sys/class/net/dut0/napi_defer_hard_irqs')
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch")) as dut:
        dut.wait_for("ready")
        run(*setting, "2")
        try:
            dut.command("finish")
            dut.wait_for("done")
        finally:
            run(*setting, "0")
    assert ready(dut)["settings_found"] == {}
    assert dut.moved()["settings.napi_defer_hard_irqs"] == 2


# The diagnostic pass


def diagnose(pair: Pair, case: str, **changes: Any) -> tuple[Agent, Agent]:
    spec = measure_spec(case, **changes) | {"pass": "diagnostic"}
    return run_trial(pair, spec, generate_spec(pair, count=COUNT, flows=2))


def by_name(counters: Counter[str], prefix: str) -> Counter[str]:
    """Sums over CPUs."""
    sums: Counter[str] = Counter()
    for key, count in counters.items():
        if found := re.fullmatch(rf"{prefix}\.cpu\d+\.(.*)", key):
            sums[found[1]] += count
    return +sums


@pytest.fixture
def down(pair: Pair) -> Iterator[str]:
    """A port of dut's namespace that could take frames, and is down."""
    run("ip", "-n", pair.dut, "link", "add", "down0", "type", "veth", "peer", "name", "down1")
    try:
        run("ip", "-n", pair.dut, "link", "set", "down1", "up")
        run_ethtool(pair.dut, "-K", "down1", "gro", "on")
        yield "down0"
    finally:
        run("ip", "-n", pair.dut, "link", "del", "down0")


@pytest.mark.parametrize("case", ["xdp.redirect.swap-macs", "xdp.redirect-map.swap-macs"])
def test_redirects_to_a_port_that_is_down_are_errors_to_the_packet(pair: Pair, down: str, case: str) -> None:
    dut, tester = diagnose(pair, case, role="forward", egress_ifname=down)
    sent = total(tester.moved(), "generator.", ".packets") - tester.moved()["netdev.tx_dropped"]
    assert by_name(dut.moved(), "xdp_errors") == {"redirect_err.ENETDOWN": sent}
    assert "xdp_redirect_err" in ready(dut)["tracepoints"]["attached"]


def test_redirects_of_a_program_on_another_cpu_are_errors_too(pair: Pair, down: str) -> None:
    xdp = {"cpus": [CPU_SAMPLER], "qsize": 2048, "select": "round-robin", "remote": "redirect"}
    dut, _ = diagnose(pair, "xdp.redirect-cpu.no-touch", role="forward", egress_ifname=down, xdp=xdp)
    moved = dut.moved()
    redirected = total(moved, "xdp_remote.", ".XDP_REDIRECT.packets")
    assert by_name(moved, "xdp_errors")["redirect_err.ENETDOWN"] == redirected > 0


def test_what_the_bulks_of_a_devmap_sent_is_all_there(pair: Pair) -> None:
    dut, tester = diagnose(pair, "xdp.redirect-map.swap-macs", role="forward")
    seen = total(dut.moved(), "xdp_prog.", ".packets")
    errors = by_name(dut.moved(), "xdp_errors")
    assert errors["devmap_xmit.sent"] + errors["devmap_xmit.drops"] == seen > 0
    assert errors["devmap_xmit.calls"] <= seen
    assert not [name for name in errors if "err" in name and errors[name]]


def test_polls_have_all_packets_in_them(pair: Pair) -> None:
    dut, _ = diagnose(pair, "xdp.drop.no-touch")
    polls = by_name(dut.moved(), "napi")
    assert sum(int(name.removeprefix("work")) * count for name, count in polls.items()) == total(
        dut.moved(), "xdp_prog.", ".packets"
    )


def test_what_others_do_is_left_out(pair: Pair, agent: Path) -> None:
    with (
        make_pair(agent) as other,
        start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch", **{"pass": "diagnostic"})) as idle,
    ):
        idle.wait_for("ready")
        busy, _ = diagnose(other, "xdp.redirect-map.swap-macs", role="forward")
        idle.command("finish")
        idle.wait_for("done")
    assert by_name(busy.moved(), "xdp_errors")["devmap_xmit.sent"] > 0
    assert by_name(idle.moved(), "xdp_errors") == {}
    assert by_name(idle.moved(), "napi") == {}


def test_without_btf_everything_is_counted_and_that_is_said(pair: Pair, tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {f"{CPU}/possible": "0-1"})
    spec = measure_spec("xdp.drop.no-touch", **{"pass": "diagnostic"})
    with start_agent(pair, pair.dut, spec, *OVER_SYS, str(tree)) as dut:
        assert dut.wait_for("ready")["tracepoints"]["only_ours"] is False


def test_tracepoints_of_a_cpumap_are_absent_from_a_case_without_one(pair: Pair) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch", **{"pass": "diagnostic"})) as dut:
        dut.wait_for("ready")
    assert absent(dut)["xdp_errors.xdp_cpumap_enqueue"] == "the case has no cpumap"


def test_a_rate_is_measured_without_tracepoints(pair: Pair) -> None:
    dut = look(pair)
    assert "tracepoints" not in ready(dut)
    assert source(dut, "xdp_errors") == source(dut, "napi") == source(dut, "pmu") == {}


# The PMU pass


def test_a_group_is_sampled_with_the_time_that_it_counted(pair: Pair) -> None:
    spec = measure_spec("xdp.drop.no-touch", **{"pass": "pmu", "pmu_group": "software"})
    dut, _ = run_trial(pair, spec, generate_spec(pair, count=COUNT))
    names = {"context-switches", "cpu-migrations", "page-faults"}
    assert ready(dut)["pmu"]["group"] == "software"
    assert ready(dut)["pmu"]["events"].keys() == names
    for cpu in os.sched_getaffinity(0):
        for sample in dut.samples("measure"):
            values = {name: sample["counters"][f"pmu.cpu{cpu}.{name}"] for name in (*names, "enabled_ns", "running_ns")}
            # Software events need no counter, so they always run.
            assert values["enabled_ns"] == values["running_ns"] > 0
    # The sampler sleeps before each sample.
    switches = sum(dut.moved()[f"pmu.cpu{cpu}.context-switches"] for cpu in os.sched_getaffinity(0))
    assert switches >= len(dut.samples("measure")) - 1


def test_a_group_that_the_processor_cannot_count_is_an_error(pair: Pair) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch", **{"pass": "pmu", "pmu_group": "llc"})) as dut:
        dut.close_stdin()
        assert dut.end() == 1
    if [line for line in dut.lines if "ready" in line]:
        pytest.skip("this processor counts them")
    error = dut.lines[-1]["error"]
    assert (error["object"], error["step"]) == ("llc", "perf_event_open")
    assert error["hint"] == "group software counts without hardware"


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"pass": "fast"}, "pass", '"fast" is not one of rate, diagnostic, pmu'),
        ({"pass": "pmu"}, "pmu_group", "missing"),
        ({"pass": "diagnostic", "pmu_group": "core"}, "pmu_group", "not allowed without pass pmu"),
        ({"pass": "pmu", "pmu_group": "all"}, "pmu_group", '"all" is not'),
    ],
)
def test_a_pass_that_is_none_is_refused(pair: Pair, changes: Line, key: str, reason: str) -> None:
    with start_agent(pair, pair.dut, measure_spec("xdp.drop.no-touch", **changes)) as dut:
        assert dut.end() == 2
    error = dut.lines[-1]["error"]
    assert (error["object"], error["step"]) == ("spec", key)
    assert reason in error["reason"]

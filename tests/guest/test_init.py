# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent as init of a guest: what it reports, how its trials go, and how it ends when it cannot go on."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_lab import total
from guest_lab import Line, dut_spec, find_end, generator_spec, make_job, moved

from xdprepro.guest import Boot, Machine, boot
from xdprepro.kernel import Kernel

pytestmark = pytest.mark.vm

DEADLINE_S = 240.0
COUNT = 700
SHORT: Line = {"settle_s": 0.01, "measure_s": 0.05, "interval_s": 0.01}
DROP, TX, BROKEN, TIMED, REFUSED, CHOSEN = range(6)


@pytest.fixture(scope="module")
def veth(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Boot:
    """One boot with all that may happen in trials."""
    job = make_job(
        "veth",
        (dut_spec(), generator_spec(COUNT)),
        (dut_spec("xdp.tx.swap-macs", "forward"), generator_spec(COUNT)),
        (dut_spec("xdp.no-such-case"), generator_spec(COUNT)),
        (dut_spec(**SHORT), generator_spec(0, interval_s=0.01)),
        (dut_spec(xsk={"bind_mode": "zero-copy"}), generator_spec(COUNT)),
        (dut_spec(), [generator_spec(COUNT, generator="pktgen"), generator_spec(COUNT, generator="af-packet")]),
        sysctls={"net/core/bpf_jit_enable": "1", "net/core/no_such_setting": "1"},
        probe=True,
    )
    return run(kernel, job, tmp_path_factory.mktemp("veth"))


def run(kernel: Kernel, job: Line, directory: Path, **machine: Any) -> Boot:
    return boot(kernel, Machine(job["port"], **machine), job, directory=directory, deadline_s=DEADLINE_S)


def keys_of(lines: Sequence[Line]) -> list[str]:
    """The first key of each line, without those of messages."""
    return [next(iter(line)) for line in lines if "msg" not in line or "probe" in line]


def assert_failed(result: Boot, error: Line) -> None:
    """The guest said so, for the host and for a person, and nothing after it."""
    assert result.lines[-1]["error"].items() >= error.items()
    assert result.failure is not None
    assert f"xdprepro: error: {error['object']}: " in result.console


def test_lines_come_in_the_order_of_the_work(veth: Boot) -> None:
    assert veth.failure is None
    order = keys_of(veth.lines)
    assert order[:3] == ["guest", "probe", "probe"]
    assert order[3:-1][:11] == [*["trial", "trial_end"] * 4, "trial_skip", "trial", "trial_end"]
    assert set(order[14:-1]) == {"kallsyms"}
    assert order[-1] == "end"


def test_guest_tells_which_kernel_it_is(veth: Boot, kernel: Kernel) -> None:
    guest = veth.lines[0]["guest"]
    assert guest["release"] == kernel.release
    assert "nokaslr" in guest["cmdline"]
    assert len(bytes.fromhex(guest["build_id"])) == 20
    assert guest["mitigations"]["meltdown"]
    assert guest["memory_bytes"] < 1 << 30


def test_setting_that_the_kernel_lacks_is_absent(veth: Boot) -> None:
    absent = {entry["source"]: entry["reason"] for entry in veth.lines[0]["guest"]["absent"]}
    assert absent == {"sysctl.net/core/no_such_setting": "No such file or directory"}


def test_both_ports_are_probed(veth: Boot) -> None:
    probes = {line["probe"]: line["msg"] for line in veth.lines if "probe" in line}
    assert {side: probe["ifname"] for side, probe in probes.items()} == {"dut": "dut0", "tester": "tester0"}
    assert all(probe["carrier"] and probe["rx_queues"] == 1 for probe in probes.values())
    assert probes["dut"]["mac"] == "02:00:00:00:00:01"


@pytest.mark.parametrize(("slot", "action"), [(DROP, "XDP_DROP"), (TX, "XDP_TX")])
def test_every_counted_packet_is_seen(veth: Boot, slot: int, action: str) -> None:
    assert find_end(veth.lines, slot)["status"] == "ok"
    assert total(moved(veth.lines, slot, "tester"), "generator.", ".packets") == COUNT
    seen = moved(veth.lines, slot, "dut")
    assert total(seen, "xdp_prog.", f".{action}.packets") == total(seen, "xdp_prog.", ".packets") == COUNT


def test_every_forwarded_packet_comes_back(veth: Boot) -> None:
    assert total(moved(veth.lines, TX, "tester"), "xdp_prog.", ".XDP_DROP.packets") == COUNT


def test_trial_that_fails_is_told_and_the_next_goes_on(veth: Boot) -> None:
    end = find_end(veth.lines, BROKEN)
    assert end["status"] == "failed"
    assert "xdp.no-such-case" in end["reason"]
    assert find_end(veth.lines, TIMED)["status"] == "ok"


def test_trial_that_the_port_cannot_do_is_skipped_with_the_reason(veth: Boot) -> None:
    skipped = {line["trial_skip"]: line["reason"] for line in veth.lines if "trial_skip" in line}
    assert list(skipped) == [REFUSED]
    assert skipped[REFUSED].startswith("DUT dut0 has no xsk zero copy: dut0 queue 0: ")


def test_first_generator_that_the_port_has_is_taken(veth: Boot) -> None:
    ready = [line["msg"] for line in veth.lines if line.get("slot") == CHOSEN and "ready" in line["msg"]]
    assert [message["generator"]["generator"] for message in ready if "generator" in message] == ["af-packet"]
    assert find_end(veth.lines, CHOSEN)["status"] == "ok"


def test_trial_without_a_count_is_measured_for_its_time(veth: Boot) -> None:
    said = [line["msg"] for line in veth.lines if line.get("slot") == TIMED and line["side"] == "dut"]
    assert {"measured": True} in said
    assert len([message for message in said if message.get("phase") == "measure"]) > 2
    seen = total(moved(veth.lines, TIMED, "dut"), "xdp_prog.", ".packets")
    assert seen == total(moved(veth.lines, TIMED, "tester"), "generator.", ".packets") > 0


def test_functions_of_kernel_and_modules_have_addresses(veth: Boot) -> None:
    text = "".join(line["kallsyms"] for line in veth.lines if "kallsyms" in line)
    symbols = [line.split() for line in text.splitlines()]
    assert {symbol[1] for symbol in symbols} <= set("tTwW")
    assert any(symbol[2:] == ["veth_poll", "[veth]"] for symbol in symbols)
    assert any(symbol[2:] == ["net_rx_action"] for symbol in symbols)


def test_console_shows_every_step(veth: Boot) -> None:
    steps = [line.partition("xdprepro: ")[2] for line in veth.console.splitlines() if "xdprepro: " in line]
    assert steps[0] == "start"
    assert steps[-1] == "end"
    assert {"make ports", "trial 0: ok", "read symbols"} <= set(steps)


def test_every_packet_crosses_igb(kernel: Kernel, tmp_path: Path) -> None:
    """The driver resets its link when a program comes or goes, and its ring is short."""
    trials = [(dut_spec(), generator_spec(COUNT)), (dut_spec("xdp.tx.swap-macs", "forward"), generator_spec(COUNT))]
    result = run(kernel, make_job("igb", *trials, count=False), tmp_path, channel="serial")
    assert result.failure is None
    for slot in (DROP, TX):
        assert find_end(result.lines, slot)["reason"] == ""
        assert total(moved(result.lines, slot, "dut"), "xdp_prog.", ".packets") == COUNT
    assert total(moved(result.lines, TX, "tester"), "xdp_prog.", ".packets") == COUNT


def test_job_with_an_unknown_key_names_it(kernel: Kernel, tmp_path: Path) -> None:
    result = run(kernel, make_job("veth", count=False, speed=9), tmp_path)
    assert_failed(result, {"object": "job", "step": "speed"})


def test_module_that_does_not_load_is_named(kernel: Kernel, tmp_path: Path) -> None:
    """A directory of modules whose veth.ko is cut short."""
    assert kernel.modules is not None
    modules = tmp_path / "modules"
    modules.mkdir()
    for path in kernel.modules.iterdir():
        (modules / path.name).symlink_to(path)
    (modules / "modules.dep").unlink()
    text = (kernel.modules / "modules.dep").read_text()
    (modules / "modules.dep").write_text(text.replace("kernel/drivers/net/veth.ko:", "veth.ko:"))
    (modules / "veth.ko").write_bytes((kernel.modules / "kernel/drivers/net/veth.ko").read_bytes()[:4096])
    result = run(replace(kernel, modules=modules), make_job("veth", count=False), tmp_path / "boot")
    name = result.lines[-1]["error"]["object"]
    assert name.endswith("veth.ko")
    assert_failed(result, {"object": name, "step": "load module", "reason": "Exec format error"})


def test_port_without_its_device_is_named(kernel: Kernel, tmp_path: Path) -> None:
    """A kernel without a directory of modules loads none."""
    result = run(replace(kernel, modules=None), make_job("veth", count=False), tmp_path, channel="serial")
    assert_failed(result, {"object": "veth", "step": "port", "errno": 19})

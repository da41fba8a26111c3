# SPDX-License-Identifier: GPL-2.0-or-later
"""XDP cases on a kernel of 2020: it counts to the packet what it has, and what it lacks is told with its release."""

from typing import Any

import pytest
from guest_lab import Line, dut_spec, find_end, generator_spec, make_job, moved

from xdprepro.guest import Boot, Machine, boot
from xdprepro.kernels import find_kernel

pytestmark = [pytest.mark.vm, pytest.mark.slow, pytest.mark.usefixtures("qemu")]

PACKETS = 200
# A case, its role, what its section says, and the action that has every packet.
GOOD: list[tuple[str, str, Line, str]] = [
    ("xdp.drop.no-touch", "sink", {}, "xdp_prog.cpu0.rxq0.XDP_DROP"),
    ("xdp.pass.parse-ip", "sink", {}, "xdp_prog.cpu0.rxq0.XDP_PASS"),
    ("xdp.abort.no-touch", "sink", {}, "xdp_prog.cpu0.rxq0.XDP_ABORTED"),
    ("xdp.tx.swap-macs", "forward", {}, "xdp_prog.cpu0.rxq0.XDP_TX"),
    ("xdp.redirect.swap-macs", "forward", {}, "xdp_prog.cpu0.rxq0.XDP_REDIRECT"),
    ("xdp.redirect-map.swap-macs", "forward", {}, "xdp_prog.cpu0.rxq0.XDP_REDIRECT"),
    ("xdp.redirect-cpu.no-touch", "sink", {"cpus": [0]}, "xdp_prog.cpu0.rxq0.XDP_REDIRECT"),
    (
        "xdp.redirect-cpu.no-touch",
        "sink",
        {"cpus": [0], "remote": "drop", "select": "l4-hash"},
        "xdp_remote.cpu0.XDP_DROP",
    ),
    ("xdp.redirect-cpu.no-touch", "forward", {"cpus": [0], "remote": "redirect"}, "xdp_remote.cpu0.XDP_REDIRECT"),
]
# The same, and what the error says.
LACKING: list[tuple[str, str, Line, str, str]] = [
    ("xdp.drop.no-touch", "sink", {"frags": True}, "hint", "packets in fragments need Linux 5.18"),
    (
        "xdp.tx.swap-macs",
        "forward",
        {"access": "load-bytes"},
        "hint",
        "helpers that copy a packet's bytes need Linux 5.18",
    ),
    (
        "xdp.redirect-multi.swap-macs",
        "forward",
        {},
        "reason",
        "the kernel does not send one packet to several ports (5.13)",
    ),
]


@pytest.fixture(scope="module", params=[1, 2])
def done(request: pytest.FixtureRequest, qemu: str, tmp_path_factory: pytest.TempPathFactory) -> Boot:
    """A boot with all of them, on ports with one queue and with two."""
    cases: list[tuple[Any, ...]] = [*GOOD, *LACKING]
    trials = [
        (
            dut_spec(case, role, **({"xdp": xdp} if xdp else {})),
            generator_spec(PACKETS, window=slot, generator="af-packet"),
        )
        for slot, (case, role, xdp, *_) in enumerate(cases)
    ]
    job = make_job("veth", *trials, queues=request.param, count=False, probe=True)
    directory = tmp_path_factory.mktemp("old")
    ended = boot(find_kernel("deb:5.10"), Machine("veth"), job, directory=directory, deadline_s=200)
    assert ended.failure is None
    return ended


def test_every_packet_is_counted(done: Boot) -> None:
    for slot, (case, role, _, counter) in enumerate(GOOD):
        assert find_end(done.lines, slot)["status"] == "ok", case
        assert moved(done.lines, slot, "dut")[f"{counter}.packets"] == PACKETS, case
        returned = moved(done.lines, slot, "tester")["xdp_prog.cpu0.rxq0.XDP_DROP.packets"]
        assert returned == (PACKETS if role == "forward" else 0), case


def test_what_is_missing_is_said_with_the_release_that_has_it(done: Boot) -> None:
    for slot, (_, _, _, key, words) in enumerate(LACKING, len(GOOD)):
        (error,) = (line["msg"]["error"] for line in done.lines if line.get("slot") == slot and "error" in line["msg"])
        assert error["step"] == "load"
        assert error[key] == words


def test_probe_knows_it_before(done: Boot) -> None:
    (can,) = (line["msg"]["can"] for line in done.lines if line.get("probe") == "dut")
    names = ("multi_buffer", "load_bytes", "redirect_multi", "redirect_cpu")
    assert [can[name]["ok"] for name in names] == [False, False, False, True]

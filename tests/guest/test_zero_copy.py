# SPDX-License-Identifier: GPL-2.0-or-later
"""AF_XDP without a copy, on the drivers that have it: the mode is read back, and every packet is found again."""

from pathlib import Path
from typing import Any

import pytest
from agent_lab import total
from guest_lab import ENDS, Line, dut_spec, find_end, generator_spec, make_job, moved

from xdprepro.guest import Boot, Machine, boot
from xdprepro.kernels import find_kernel

COUNT = 200
DEADLINE_S = 200.0
# virtio_net moves live frames' data to make room for its header, and then loses half of them.
GENERATORS = {"igb": "live-frames", "virtio-net-dma": "af-packet"}


def xsk_part(**changes: Any) -> Line:
    return {
        "bind_mode": "zero-copy",
        "queues": [0],
        "app_cpus": [0],
        "wakeup": "poll",
        "batch": 64,
        "ring_rx": 512,
        "ring_fill": 1024,
        "frames": 1024,
        "frame_size": 2048,
        **changes,
    }


def transmit_trial() -> tuple[Line, Line]:
    frame = {"dst_mac": ENDS["tester"]["mac"], "src_mac": ENDS["dut"]["mac"], "frame_len": 60, "flows": 3}
    sender = dut_spec("xsk.txonly", "transmit", xsk=xsk_part(), count=COUNT, frame=frame)
    return sender, dut_spec(ifname="tester0")


CASES = {
    "xsk.rxdrop": "sink",
    "xsk.rxdrop.swap-macs": "sink",
    "xsk.l2fwd.swap-macs": "forward",
    "xdpxsk.drop.swap-macs": "sink",
    "xdpxsk.pass.swap-macs": "sink",
}


def run(port: str, directory: Path) -> Boot:
    sender = generator_spec(COUNT, generator=GENERATORS[port])
    trials = [(dut_spec(case, role, xsk=xsk_part()), sender) for case, role in CASES.items()]
    job = make_job(port, *trials, transmit_trial(), count=False)
    return boot(find_kernel("deb:6.16"), Machine(port), job, directory=directory, deadline_s=DEADLINE_S)


def assert_zero_copy(lines: tuple[Line, ...], slot: int) -> None:
    assert find_end(lines, slot)["status"] == "ok", find_end(lines, slot)
    (ready,) = (
        line["msg"] for line in lines if line.get("slot") == slot and line["side"] == "dut" and "ready" in line["msg"]
    )
    assert [socket["bind_mode"] for socket in ready["xsk"]] == ["zero-copy"]


@pytest.mark.vm
@pytest.mark.parametrize("port", ["igb", pytest.param("virtio-net-dma", marks=pytest.mark.slow)])
def test_nothing_is_copied_and_nothing_lost(qemu: str, port: str, tmp_path: Path) -> None:
    done = run(port, tmp_path)
    assert done.failure is None, done.failure
    for slot, case in enumerate(CASES):
        assert_zero_copy(done.lines, slot)
        dut, tester = moved(done.lines, slot, "dut"), moved(done.lines, slot, "tester")
        taken = total(dut, "xsk_app.", ".rx_packets")
        assert total(dut, "xdp_prog.", ".packets") == COUNT
        assert (
            taken + total(dut, "xdp_prog.", ".XDP_DROP.packets") + total(dut, "xdp_prog.", ".XDP_PASS.packets") == COUNT
        )
        sent = total(dut, "xsk_app.", ".tx_packets")
        assert sent == total(tester, "xdp_prog.", ".packets") == (COUNT if "l2fwd" in case else 0)
    assert_zero_copy(done.lines, len(CASES))
    dut, tester = moved(done.lines, len(CASES), "dut"), moved(done.lines, len(CASES), "tester")
    assert total(dut, "xsk_app.", ".tx_packets") == total(tester, "xdp_prog.", ".XDP_DROP.packets") == COUNT
    assert total(dut, "xsk_app.", ".completions") == COUNT

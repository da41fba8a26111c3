# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs for the micro guest, and what its lines say."""

from collections import Counter
from typing import Any

Line = dict[str, Any]

ENDS = {
    "dut": {"ifname": "dut0", "mac": "02:00:00:00:00:01"},
    "tester": {"ifname": "tester0", "mac": "02:00:00:00:00:02"},
}
LONG_S = 100  # of the guest's time, which idle guests skip: no sample while packets come


def make_job(port: str, *trials: tuple[Line, Line | list[Line]], **changes: Any) -> Line:
    """A job of counted trials, whose slots are their numbers; the tester may have several specs."""
    return {
        "port": port,
        "ports": ENDS,
        "queues": 1,
        "mtu": 1500,
        "sysctls": {},
        "count": True,
        "probe": False,
        "trials": [{"slot": slot, "dut": dut, "tester": tester} for slot, (dut, tester) in enumerate(trials)],
        **changes,
    }


def dut_spec(case: str = "xdp.drop.no-touch", role: str = "sink", **changes: Any) -> Line:
    """The DUT of a counted trial."""
    return {
        "role": role,
        "case": case,
        "ifname": "dut0",
        "interval_s": LONG_S,
        "sampler_cpu": 0,
        "attach_mode": "native",
        "settle_s": 0,
        "measure_s": LONG_S,
        **changes,
    }


def generator_spec(count: int, **changes: Any) -> Line:
    """A generator that sends so many frames."""
    return {
        "role": "generate",
        "ifname": "tester0",
        "interval_s": LONG_S,
        "sampler_cpu": 0,
        "attach_mode": "native",
        "generator": "live-frames",
        "cpus": [0],
        "batch": 64,
        "count": count,
        "frame": {
            "dst_mac": ENDS["dut"]["mac"],
            "src_mac": ENDS["tester"]["mac"],
            "frame_len": 60,
            "flows": 1,
        },
        **changes,
    }


def find_end(lines: tuple[Line, ...], slot: int) -> Line:
    """How a trial ended."""
    (end,) = (line for line in lines if line.get("trial_end") == slot)
    return end


def moved(lines: tuple[Line, ...], slot: int, side: str) -> Counter[str]:
    """What the counters of one side grew by between the edges of a trial."""
    said = [line["msg"] for line in lines if line.get("slot") == slot and line["side"] == side]
    edges = {message["edge"]: _flatten(message) for message in said if "edge" in message}
    return Counter({name: value - edges["start"].get(name, 0) for name, value in edges["end"].items()})


def _flatten(edge: Line) -> dict[str, int]:
    return {f"{s['source']}.{k}": v for s in edge["sources"] for k, v in s["counters"].items()}

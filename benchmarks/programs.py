# SPDX-License-Identifier: GPL-2.0-or-later
"""What each XDP program costs, in instructions of x86: the table of docs/programs.md, of one kernel and one port."""

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdprepro.guest import Boot, Machine, boot, read_counted
from xdprepro.kernels import find_kernel
from xdprepro.sample import Profile

PACKETS = 500
IDLE_S = 100  # longer than any of this takes: no sample while packets come
ENDS = {
    "dut": {"ifname": "dut0", "mac": "02:00:00:00:00:01"},
    "tester": {"ifname": "tester0", "mac": "02:00:00:00:00:02"},
}
TOUCHES = ("no-touch", "read-data", "parse-ip", "swap-macs")
MOVED = ("no-touch", "swap-macs")
FORWARDERS = {"tx": TOUCHES, "redirect": MOVED, "redirect-map": MOVED, "redirect-multi": ("swap-macs",)}
HELPERS = ("bpf_get_smp_processor_id", "bpf_xdp_load_bytes", "bpf_xdp_store_bytes")

Line = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """One program of the table, and what a spec has to say to get it."""

    case: str
    role: str
    xdp: Line

    @property
    def words(self) -> str:
        return " ".join([f"`{self.case}`", *(str(value) for key, value in self.xdp.items() if key != "cpus")])


def iter_entries() -> Iterator[Entry]:
    """The bare programs first."""
    for case, role in (("drop", "sink"), ("tx.swap-macs", "forward"), ("redirect-map.swap-macs", "forward")):
        yield Entry(f"bare.{case}", role, {})
    for op, touches in ({"drop": TOUCHES} | FORWARDERS).items():
        for touch in touches:
            for more in ({}, {"access": "load-bytes"})[: 1 if touch == "no-touch" else 2]:
                yield Entry(f"xdp.{op}.{touch}", "forward" if op in FORWARDERS else "sink", more)
    for select in ("round-robin", "l4-hash"):
        yield Entry("xdp.redirect-cpu.no-touch", "sink", {"cpus": [0], "remote": "drop", "select": select})


def make_trial(slot: int, entry: Entry) -> Line:
    common = {"interval_s": IDLE_S, "sampler_cpu": 0, "attach_mode": "native"}
    frame = {"dst_mac": ENDS["dut"]["mac"], "src_mac": ENDS["tester"]["mac"], "frame_len": 60, "flows": 1}
    dut = {"role": entry.role, "case": entry.case, "ifname": "dut0", "settle_s": 0, "measure_s": IDLE_S, **common}
    tester = {"role": "generate", "ifname": "tester0", "generator": "live-frames", "cpus": [0], "batch": 64, **common}
    return {
        "slot": slot,
        "dut": dut | ({"xdp": entry.xdp} if entry.xdp else {}),
        "tester": tester | {"count": PACKETS, "window": slot, "frame": frame},
    }


def run_guest(kernel: str, entries: list[Entry], *, queues: int, directory: Path) -> Boot:
    job = {
        "port": "veth",
        "ports": ENDS,
        "queues": queues,
        "mtu": 1500,
        "sysctls": {"net/core/bpf_jit_enable": "1"},
        "count": True,
        "probe": False,
        "trials": [make_trial(slot, entry) for slot, entry in enumerate(entries)],
    }
    return boot(find_kernel(kernel), Machine("veth"), job, directory=directory, deadline_s=600)


def count(profile: Profile, *names: str) -> float:
    """Instructions a packet of the functions whose names start like that, on the way of the packets."""
    insn = sum(row.insn for row in profile.rows if row.side == "receive" and row.function.startswith(names))
    return insn / PACKETS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", default="deb:6.12")
    parser.add_argument("--queues", type=int, default=1)
    args = parser.parse_args()
    entries = list(iter_entries())
    with tempfile.TemporaryDirectory() as directory:
        done = run_guest(args.kernel, entries, queues=args.queues, directory=Path(directory))
        profiles = read_counted(done).profiles
    print("| case | BPF | x86, program | x86, its helpers | x86, all of receiving |\n|---|---|---|---|---|")
    said = [line for line in done.lines if line.get("side") == "dut"]
    ready = {line["slot"]: line["msg"]["attach"] for line in said if "ready" in line["msg"]}
    for slot, profile in profiles.items():
        counts = (count(profile, "bpf:"), count(profile, *HELPERS), count(profile, ""))
        cells = " | ".join(f"{insn:.0f}" for insn in counts)
        print(f"| {entries[slot].words} | {ready[slot]['xlated_len'] // 8} | {cells} |")


if __name__ == "__main__":
    main()

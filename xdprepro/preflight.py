# SPDX-License-Identifier: GPL-2.0-or-later
"""What would go wrong with a case before its first packet, from the probes of both ports: facts, each with its cure."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdprepro.cases import ETHERNET_BYTES, LARGEST_IN_ONE_PAGE, LARGEST_MTU, Case
from xdprepro.lab import Lab
from xdprepro.needs import dut_capabilities, find_missing, tester_capabilities
from xdprepro.specs import make_dut_spec, plan_cpus

OK, WARNING, ERROR = "ok", "warning", "error"

Probe = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. An `error` keeps the case from running, a `warning` from being what it seems."""

    id: str
    want: str
    got: str
    severity: str = OK
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """A lab as it is now: the probes of both ends, and who has an AF_XDP socket in the DUT's namespace."""

    lab: Lab
    dut: Probe
    tester: Probe
    holders: tuple[str, ...] = ()

    @property
    def ends(self) -> tuple[tuple[str, Probe], ...]:
        return ("DUT", self.dut), ("tester", self.tester)

    def spec_of(self, case: Case) -> Mapping[str, Any]:
        """What the agent under test would be told."""
        return make_dut_spec(self.lab, case, plan_cpus(self.dut["cpus"], case), range(self.dut["rx_queues"]))


def find_checks(case: Case, place: Place) -> tuple[Check, ...]:
    """All checks that mean something for this case. What is the matter with a port comes first, and then alone."""
    ports = tuple(check for find in PORT_CHECKS for check in find(case, place)) if case.kind.has_tester else ()
    if any(check.severity == ERROR for check in ports):
        return ports
    cpus = tuple(_cpus(case, place))
    # Without enough CPUs there is no spec to look at.
    if any(check.severity == ERROR for check in cpus):
        return (*ports, *cpus)
    found = (*ports, *cpus, *(check for find in CASE_CHECKS for check in find(case, place)))
    return found if find_errors(found) else (*found, *_others(case, place))


def find_errors(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Those that keep a case from running."""
    return tuple(check for check in checks if check.severity == ERROR)


def format_check(check: Check) -> str:
    """Why a case is skipped, and how to mend it."""
    return f"wanted {check.want}, got {check.got}: {check.fix}"


def _judge(name: str, want: str, got: str, *, good: bool, fix: str, otherwise: str = ERROR) -> Check:
    return Check(name, want, got) if good else Check(name, want, got, otherwise, fix)


def _others(case: Case, place: Place) -> Iterator[Check]:
    """Whatever else a run would skip the case for."""
    if reason := find_missing(case, place.dut, place.tester):
        yield Check("case", "nothing that a run would skip it for", reason, ERROR, "change the parameter that it names")


# The ports


def _carrier(_case: Case, place: Place) -> Iterator[Check]:
    for end, probe in place.ends:
        got = "carrier" if probe["carrier"] else "no carrier"
        fix = f"see that both ends are up and cabled: 'xdprepro up {place.lab.spec}'"
        yield _judge("carrier", f"{end} {probe['ifname']}: carrier", got, good=probe["carrier"], fix=fix)


def _free(_case: Case, place: Place) -> Iterator[Check]:
    for end, probe in place.ends:
        xdp = probe["xdp"]
        got = f"program {xdp['prog_id']} in mode {xdp['attach_mode']}" if xdp["attached"] else "none"
        fix = f"end what holds it, or run 'xdprepro down {place.lab.spec}' and 'xdprepro up {place.lab.spec}'"
        want = f"{end} {probe['ifname']}: no XDP program of someone else"
        yield _judge("xdp-free", want, got, good=not xdp["attached"], fix=fix)


def _as_provisioned(_case: Case, place: Place) -> Iterator[Check]:
    if place.lab.boots_kernels:  # a guest's port has what its driver has
        return
    fix = f"run 'xdprepro up {place.lab.spec}' to repair the lab"
    for end, probe in place.ends:
        for name, key, wanted in (("queues", "rx_queues", place.lab.queues), ("mtu", "mtu", place.lab.mtu)):
            words = f"{end} {probe['ifname']}: {key} {wanted}, as the inventory says"
            yield _judge(name, words, f"{key} {probe[key]}", good=probe[key] == wanted, fix=fix)


PORT_CHECKS: Sequence[Callable[[Case, Place], Iterator[Check]]] = (_carrier, _free, _as_provisioned)


# The case


def _cpus(case: Case, place: Place) -> Iterator[Check]:
    have = len(place.dut["cpus"])
    threads = max(case.xsk_threads, 2 if case.role == "ring" else int(case.kind.in_app))
    wanted = {"generators": case.generators, "remote_cpus": case.remote_cpus, "xsk_threads": case.xsk_threads}
    for key, count in {**wanted, "threads": threads}.items():
        if count > have:
            yield Check("cpus", f"{count} CPUs for {key} = {count}", f"{have} CPUs", ERROR, f"use {have} or fewer")
            return
    apart = 1 + threads + case.remote_cpus + case.generators
    fix = "use a machine with more CPUs; what shares one is flagged cpu_shared"
    want = f"{apart} CPUs, one each for the sampler and whatever sends, receives or forwards"
    yield _judge("cpus", want, f"{have} CPUs", good=have >= apart, fix=fix, otherwise=WARNING)


def _mtu(case: Case, place: Place) -> Iterator[Check]:
    needed = case.frame_len - ETHERNET_BYTES
    for end, probe in place.ends if case.kind.has_tester else ():
        mtu = probe["mtu"]
        fix = f"set lab_mtu to {needed} or more in {place.lab.path}, or frame_len to {mtu + ETHERNET_BYTES} or less"
        want = f"{end} {probe['ifname']}: MTU {needed} or more for frame_len {case.frame_len}"
        yield _judge("mtu", want, f"MTU {mtu}", good=mtu >= needed, fix=fix)


def _frags(case: Case, place: Place) -> Iterator[Check]:
    """Programs without fragments are refused at an MTU whose frames do not fit into a page, however long they are."""
    if case.attach_mode != "native":
        return
    mtu, can = place.dut["mtu"], place.dut["can"]
    want = f"DUT {place.dut['ifname']}: MTU {LARGEST_MTU} or less in native mode, or frags = true"
    fits = case.frags or mtu <= LARGEST_MTU or can["xdp_native"]["ok"]
    cure = "frags = true, or " if can["multi_buffer"]["ok"] else ""
    fix = f'set {cure}attach_mode = "skb", or lab_mtu to {LARGEST_MTU} or less in {place.lab.path}'
    yield _judge("frags", want, f"MTU {mtu}, frags {case.frags}".lower().replace("mtu", "MTU"), good=fits, fix=fix)


def _capabilities(case: Case, place: Place) -> Iterator[Check]:
    if not case.kind.has_tester:
        return
    wanted = (dut_capabilities(case), tester_capabilities(case, place.tester))
    for (end, probe), capabilities in zip(place.ends, wanted, strict=True):
        for name in capabilities:
            yield _capability(name, f"{end} {probe['ifname']}", probe, place)


def _capability(name: str, port: str, probe: Probe, place: Place) -> Check:
    answer = probe["can"].get(name, {"ok": False, "reason": "the agent did not try it"})
    reason, words = answer.get("reason", "no reason given"), name.replace("_", " ")
    if "busy" in reason.lower() and name.startswith("xsk"):
        holders = f"; AF_XDP sockets are held by {', '.join(place.holders)}" if place.holders else ""
        fix = f"end {place.holders[0]}" if place.holders else "end the program that has a socket on this queue"
        return Check("busy-queue", f"{port}: a queue without a socket", f"{reason}{holders}", ERROR, fix)
    got = words if answer["ok"] else reason
    return _judge(name.replace("_", "-"), f"{port}: {words}", got, good=answer["ok"], fix=FIXES[name])


FIXES: Mapping[str, str] = {
    "xdp_native": 'use attach_mode = "skb", or a port whose driver has native XDP',
    "xdp_skb": "boot a kernel with CONFIG_BPF_SYSCALL and CONFIG_NET",
    "multi_buffer": f"leave frags away and keep to frames of {LARGEST_IN_ONE_PAGE} bytes, or use a newer kernel",
    "xsk_copy": "boot a kernel with CONFIG_XDP_SOCKETS",
    "xsk_zero_copy": 'use bind_mode = "copy", or a driver that has it: igb from Linux 6.14, virtio_net from 6.13',
    "busy_poll": "use another wakeup, or boot Linux 5.11 or newer",
    "huge_pages": "free some: 'sysctl -w vm.nr_hugepages=64'",
    "load_bytes": 'use access = "pointer", or boot Linux 5.18 or newer',
    "redirect_multi": "boot Linux 5.14 or newer",
    "redirect_cpu": "boot Linux 5.9 or newer",
    "live_frames": 'use generator = "af-packet", or boot Linux 5.18 or newer',
    "af_packet": "boot a kernel with CONFIG_PACKET",
    "tc": "boot a kernel with CONFIG_NET_CLS_ACT, CONFIG_NET_CLS_BPF and CONFIG_NET_SCH_INGRESS",
    "pmu": 'use pmu_group = "software", or a machine whose PMU can be used',
}


def _entry(case: Case, place: Place) -> Iterator[Check]:
    """A veth port has frames of XDP only where it has NAPI, for which it needs a native program or GRO."""
    if place.dut["driver"] != "veth" or case.generator != "live-frames":
        return
    gro = place.dut.get("features", {}).get("rx-gro", False)
    ways = {"a native program": case.attach_mode == "native", "GRO": gro}
    got = " and ".join(word for word, there in ways.items() if there) or f"attach_mode {case.attach_mode}, GRO off"
    ifname = place.dut["ifname"]
    fix = f"use generator = \"af-packet\", or run 'ethtool -K {ifname} gro on' on the DUT"
    want = f"DUT {ifname}: a native program or GRO, or no live frame enters this veth port"
    yield _judge("entry-napi", want, got, good=any(ways.values()), fix=fix)


def _egress(case: Case, place: Place) -> Iterator[Check]:
    """Likewise the tester's, for what comes back."""
    if case.role != "forward" or not case.attach_mode:
        return
    answer = place.tester["can"]["xdp_native"]
    want = f"tester {place.tester['ifname']}: a program there, or what XDP sends back may be dropped"
    got = "its agent attaches one" if answer["ok"] else answer.get("reason", "none")
    fix = "use a port with native XDP for the tester, too"
    yield _judge("egress-program", want, got, good=answer["ok"], fix=fix, otherwise=WARNING)


def _channels(case: Case, place: Place) -> Iterator[Check]:
    """Each generator and socket has a queue of its own; whoever sends without one takes a lock for each packet."""
    if not case.kind.has_tester:
        return
    rx, tx = place.dut["rx_queues"], place.dut["tx_queues"]
    port = f"DUT {place.dut['ifname']}"
    for key, wanted in (("generators", case.generators), ("xsk_queues", case.xsk_queues)):
        fix = f"set {key} to {rx} or less, or lab_queues to {wanted} in {place.lab.path}"
        if wanted:
            want = f"{port}: {wanted} receive queues for {key} = {wanted}"
            yield _judge("channels", want, f"{rx} receive queues", good=rx >= wanted, fix=fix)
    if case.role in ("forward", "transmit") and case.has("xsk_batch"):
        fix = f"set xsk_queues to {tx}, or make combined channels: 'ethtool -L {place.dut['ifname']} combined N'"
        wanted = case.xsk_queues or rx
        want = f"{port}: a transmit queue for each of {wanted} sockets"
        yield _judge("tx-queues", want, f"{tx} transmit queues", good=tx >= wanted, fix=fix)


def _fill_ring(case: Case, place: Place) -> Iterator[Check]:
    """A driver that takes from the fill ring in bulk finds it empty where it is shorter than what it fills."""
    if not case.has("xsk_batch"):
        return
    xsk = place.spec_of(case)["xsk"]
    ring = max(xsk["ring_rx"], place.dut.get("rings", {}).get("rx", 0))
    fix = f"set xsk_ring_fill to {1 << (2 * ring - 1).bit_length()}, or leave it away"
    want = f"a fill ring of {ring} frames or more, as the receive rings of socket and port have"
    got = f"{xsk['frames']} frames"
    yield _judge("fill-ring", want, got, good=xsk["frames"] >= ring, fix=fix, otherwise=WARNING)


def _memory(case: Case, place: Place) -> Iterator[Check]:
    if not case.has("xsk_batch"):
        return
    xsk = place.spec_of(case)["xsk"]
    kib = math.ceil(len(xsk["queues"]) * xsk["sockets"] * xsk["frames"] * xsk["frame_size"] / 1024)
    limit = place.dut["system"]["memlock_kib"]
    got = "no limit" if limit is None else f"RLIMIT_MEMLOCK is {limit} KiB, without CAP_IPC_LOCK"
    fix = f"raise it ('ulimit -l {kib}', or LimitMEMLOCK= of the service), or give CAP_IPC_LOCK"
    yield _judge("memlock", f"{kib} KiB of locked memory", got, good=limit is None or limit >= kib, fix=fix)
    if case.huge_pages:
        system = place.dut["system"]
        pages = math.ceil(kib / max(1, system["huge_page_kib"]))
        got, fix = f"{system['huge_pages_free']} free", f"run 'sysctl -w vm.nr_hugepages={pages}'"
        want = f"{pages} huge pages of {system['huge_page_kib']} KiB"
        yield _judge("huge-pages", want, got, good=system["huge_pages_free"] >= pages, fix=fix)


def _btf(case: Case, place: Place) -> Iterator[Check]:
    if case.pass_ == "diagnostic":
        has = place.dut["system"]["btf"]
        fix = "boot a kernel with CONFIG_DEBUG_INFO_BTF, or do without tracepoints"
        yield _judge(
            "btf",
            "the BTF of the kernel, for tracepoints",
            "there" if has else "none",
            good=has,
            fix=fix,
            otherwise=WARNING,
        )


CASE_CHECKS: Sequence[Callable[[Case, Place], Iterator[Check]]] = (
    _mtu,
    _frags,
    _capabilities,
    _entry,
    _egress,
    _channels,
    _fill_ring,
    _memory,
    _btf,
)

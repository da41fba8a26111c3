# SPDX-License-Identifier: GPL-2.0-or-later
"""A case and its parameters: which kinds have which, what is usual, what is allowed, and the id that they make."""

import keyword
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from xdprepro.kinds import CASE_KINDS, CaseKind

ATTACH_MODES = ("native", "skb")
BIND_MODES = ("copy", "zero-copy")
GENERATORS = ("auto", "live-frames", "af-packet")
LOADS = ("saturate", "fixed", "closed", "search")
WAKEUPS = ("irq", "need-wakeup", "poll", "busy-poll")
PASSES = ("rate", "diagnostic", "pmu")
PMU_GROUPS = ("core", "cache", "llc", "tlb", "stall", "software")
TIMES = ("settle_s", "measure_s", "interval_s")
MAX_LINES = 10_000_000
SMALL_XSK_FRAME, LARGE_XSK_FRAME = 2048, 4096  # bytes of the UMEM for a packet, with its head room
LARGEST_IN_SMALL = 1536  # frame_len
ETHERNET_BYTES = 14  # of a frame, which are no part of the MTU
LARGEST_IN_ONE_PAGE = 3400  # frame_len: the longest that native XDP takes without fragments on every driver
LARGEST_MTU = LARGEST_IN_ONE_PAGE - ETHERNET_BYTES


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of a suite. Lengths are without FCS; durations in seconds.

    The defaults are what is usual. A parameter that the case has no use for is empty, whatever it was set to: "", 0,
    False or ().
    """

    case: str
    attach_mode: str = "native"
    bind_mode: str = "copy"
    wakeup: str = "need-wakeup"
    frame_len: int = 60
    flows: int = 1
    generator_batch: int = 64
    generator: str = "auto"
    generators: int = 1
    xsk_batch: int = 64
    xsk_ring_rx: int = 2048
    settle_s: float = 0.2
    measure_s: float = 1.0
    interval_s: float = 0.05
    pass_: str = "rate"
    pmu_group: str = "core"
    load: str = "saturate"
    rate_pps: int = 0
    outstanding: int = 1
    loss_ratios: tuple[float, ...] = (0.0, 0.001, 0.005)
    width: float = 0.005
    access: str = "pointer"
    frags: bool = False
    fanout: int = 2
    select: str = "round-robin"
    remote: str = "none"
    remote_cpus: int = 1
    qsize: int = 2048
    xsk_ring_tx: int = 2048
    xsk_ring_fill: int = 0
    xsk_frame_size: int = 0
    xsk_queues: int = 0
    xsk_sockets: int = 1
    xsk_threads: int = 1
    unaligned: bool = False
    huge_pages: bool = False
    shared_umem: bool = False
    busy_poll_us: int = 20
    busy_poll_budget: int = 64
    lines: int | str = 1024
    iterations: int = 1
    acl: int = 1000
    sessions: int = 1000
    backends: int = 16
    drop_share: int = 0
    work_seed: int = 1
    packet_block_size: int = 131072
    packet_blocks: int = 32
    packet_batch: int = 64
    packet_wakeup: str = "poll"
    packet_timeout_ms: int = 1
    bypass: bool = True
    udp_batch: int = 64
    ring_size: int = 2048
    ring_batch: int = 16
    ring_fill: str = "half"
    ring_faster: str = "none"

    def __post_init__(self) -> None:
        for name in PARAMETERS:
            if not self.has(name):
                object.__setattr__(self, _field(name), type(usual(name))())

    @property
    def kind(self) -> CaseKind:
        """The row of CASE_KINDS."""
        return CASE_KINDS[self.case]

    @property
    def role(self) -> str:
        """The agent's part on the DUT; of a cpumap it is the second program that decides whether packets return."""
        return role_of({"case": self.case, "remote": self.remote})

    @property
    def id(self) -> str:
        """A slug in fixed order, legal as an HDF5 group name: case, modes, frame length, then what is not default."""
        words = [self.case, self.attach_mode, self.bind_mode, f"{self.frame_len}B" if self.frame_len else ""]
        extras = [name for name in _ID_EXTRAS if self.has(name)]
        words += [_id_word(name, value) for name in extras if (value := self.get(name)) != usual(name)]
        return ".".join(word for word in words if word)

    def get(self, name: str) -> Any:
        """A parameter by the name that suites and archives know it by."""
        return getattr(self, _field(name))

    def has(self, name: str) -> bool:
        """Whether the case has any use for this parameter."""
        group, only_if = PARAMETERS[name].group, PARAMETERS[name].only_if
        return group in self.kind.groups and (not only_if or self.get(only_if[0]) == only_if[1])

    def params(self) -> dict[str, Any]:
        """All parameters, by the names that suites and archives know them by."""
        named = {name.rstrip("_"): value for name, value in asdict(self).items()}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in named.items()}


@dataclass(frozen=True, slots=True)
class Parameter:
    """Which kinds have it (`group`), and what it may be: words, numbers of a range, or all between two floats.

    `only_if` names another parameter and the value of it without which this one means nothing.
    """

    group: str
    allowed: Any
    words: str = ""
    only_if: tuple[str, str] | None = None


def _power_of_two(low: int, high: int) -> tuple[int, ...]:
    return tuple(1 << n for n in range(low, high + 1))


_SEARCH = ("load", "search")
_BUSY_POLL = ("wakeup", "busy-poll")

PARAMETERS: Mapping[str, Parameter] = {
    "attach_mode": Parameter("xdp", ATTACH_MODES),
    "frags": Parameter("xdp", (False, True)),
    "access": Parameter("access", ("pointer", "load-bytes")),
    "fanout": Parameter("fanout", range(1, 33), "1 to 32 slots"),
    "select": Parameter("cpumap", ("round-robin", "l4-hash")),
    "remote": Parameter("cpumap", ("none", "drop", "pass", "redirect")),
    "remote_cpus": Parameter("cpumap", range(1, 257), "1 to 256 CPUs"),
    "qsize": Parameter("cpumap", range(1, 16385), "1 to 16384 packets"),
    "bind_mode": Parameter("xsk", BIND_MODES),
    "wakeup": Parameter("xsk", WAKEUPS),
    "xsk_batch": Parameter("xsk", range(1, 257), "1 to 256"),
    "xsk_ring_rx": Parameter("xsk", _power_of_two(6, 15), "a power of two, 64 to 32768"),
    "xsk_ring_tx": Parameter("xsk", _power_of_two(6, 15), "a power of two, 64 to 32768"),
    "xsk_ring_fill": Parameter(
        "xsk", (0, *_power_of_two(6, 16)), "a power of two, 64 to 65536, or 0: twice xsk_ring_rx"
    ),
    "xsk_frame_size": Parameter(
        "xsk", (0, SMALL_XSK_FRAME, LARGE_XSK_FRAME), "2048, 4096, or 0: the smaller that holds frame_len"
    ),
    "xsk_queues": Parameter("xsk", range(0, 257), "0 (all) to 256"),
    "xsk_sockets": Parameter("xsk", _power_of_two(0, 4), "1, 2, 4, 8 or 16 for each queue"),
    "xsk_threads": Parameter("xsk", range(1, 257), "1 to 256"),
    "unaligned": Parameter("xsk", (False, True)),
    "huge_pages": Parameter("xsk", (False, True)),
    "shared_umem": Parameter("xsk", (False, True)),
    "busy_poll_us": Parameter("xsk", range(1, 1001), "1 to 1000 us", only_if=_BUSY_POLL),
    "busy_poll_budget": Parameter("xsk", range(1, 1025), "1 to 1024 packets", only_if=_BUSY_POLL),
    "lines": Parameter(
        "lines",
        re.compile(r"(l1|l2|llc)\*(\d{1,4}|\d{0,4}\.\d{1,6})"),
        '1 to 10000000 of 64 bytes, or a multiple of a cache, as "l2*0.5" or "llc*2"',
    ),
    "iterations": Parameter("iterations", range(1, 51), "1 to 50"),
    "acl": Parameter("acl", range(1, 1_000_001), "1 to 1000000 entries"),
    "sessions": Parameter("sessions", range(1, 2_000_001), "1 to 2000000"),
    "backends": Parameter("sessions", range(1, 129), "1 to 128"),
    "drop_share": Parameter("drop_share", range(101), "0 to 100 %"),
    "work_seed": Parameter("seed", range(2**31), f"0 to {2**31 - 1}"),
    "packet_block_size": Parameter("packet", _power_of_two(12, 22), "a power of two, 4096 to 4194304 bytes"),
    "packet_blocks": Parameter("packet", range(1, 1025), "1 to 1024"),
    "packet_batch": Parameter("packet", range(1, 257), "1 to 256"),
    "packet_wakeup": Parameter("packet", ("busy", "poll")),
    "bypass": Parameter("packet", (False, True)),
    "packet_timeout_ms": Parameter("timeout", range(1, 21), "1 to 20 ms"),
    "udp_batch": Parameter("udp", range(1, 257), "1 to 256"),
    "ring_size": Parameter("ring", _power_of_two(6, 20), "a power of two, 64 to 1048576 entries"),
    "ring_batch": Parameter("ring", range(1, 65), "1 to 64"),
    "ring_fill": Parameter("ring", ("empty", "half", "full")),
    "ring_faster": Parameter("ring", ("none", "producer", "consumer")),
    "load": Parameter("load", LOADS),
    "rate_pps": Parameter(
        "load", range(1, 1_000_000_001), "1 to 1000000000 packets a second", only_if=("load", "fixed")
    ),
    "outstanding": Parameter("load", range(1, 65537), "1 to 65536 packets", only_if=("load", "closed")),
    "loss_ratios": Parameter("load", (0.0, 0.5), "shares of packets, 0 to 0.5", only_if=_SEARCH),
    "width": Parameter("load", (0.0001, 0.5), "0.0001 to 0.5 of the rate", only_if=_SEARCH),
    "generator": Parameter("load", GENERATORS),
    "generators": Parameter("load", range(1, 257), "1 to 256 CPUs"),
    "generator_batch": Parameter("load", range(1, 257), "1 to 256"),
    "frame_len": Parameter("frame", range(60, 9001), "60 to 9000 bytes without FCS"),
    "flows": Parameter("frame", range(1, 60001), "1 to 60000"),
    "settle_s": Parameter("trial", (0.0, 600.0), "0 to 600 s"),
    "measure_s": Parameter("trial", (0.05, 3600.0), "0.05 to 3600 s"),
    "interval_s": Parameter("trial", (0.005, 60.0), "0.005 to 60 s"),
    "pass": Parameter("trial", PASSES),
    "pmu_group": Parameter("trial", PMU_GROUPS, only_if=("pass", "pmu")),
}


# What stands in an id if it is not usual, in this order; times are no part of what is measured.
_ID_FIRST = ("wakeup", "flows", "generator", "generators", "generator_batch", "xsk_batch", "xsk_ring_rx")
_ID_NEVER = ("attach_mode", "bind_mode", "frame_len", *TIMES)
_ID_EXTRAS = (*_ID_FIRST, *(name for name in PARAMETERS if name not in (*_ID_FIRST, *_ID_NEVER)))

_DEFAULTS = {field.name: field.default for field in fields(Case)}
# What a parameter was called in older archives.
_RENAMED = {("wakeup", "busy"): "need-wakeup"}


def usual(name: str) -> Any:
    """What a parameter is where a suite says nothing."""
    return _DEFAULTS[_field(name)]


def renamed(name: str, value: object) -> object:
    """The value as it is called today."""
    return _RENAMED.get((name, value), value) if isinstance(value, str) else value


def role_of(params: Mapping[str, Any]) -> str:
    """The agent's part on the DUT, for the parameters of a case."""
    return "forward" if params.get("remote") == "redirect" else CASE_KINDS[params["case"]].role


def make_case(params: Mapping[str, Any]) -> Case:
    """A case from parameters by the names that suites and archives know them by; all others are as usual."""
    values: dict[str, Any] = {
        _field(name): tuple(value) if isinstance(value, list) else value for name, value in params.items()
    }
    return Case(**values)


def complete_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a case, of an older archive, too: what it does not name is as usual, times excepted."""
    named = {name: renamed(name, value) for name, value in params.items()}
    case = make_case({name: value for name, value in named.items() if name in ("case", *PARAMETERS)})
    filled = {name: value for name, value in case.params().items() if name not in TIMES} | named
    return filled | ({"cpus": _complete_cpus(params["cpus"])} if "cpus" in params else {})


def _complete_cpus(cpus: Mapping[str, Any]) -> dict[str, Any]:
    """Older archives know one application, and no cpumap."""
    apps = {"apps": [cpus["app"]], "remotes": []} if "app" in cpus else {}
    return {key: value for key, value in cpus.items() if key != "app"} | apps


def _field(name: str) -> str:
    """The name of a parameter in Python, which has some words for itself."""
    return f"{name}_" if keyword.iskeyword(name) else name


def _id_word(name: str, value: object) -> str:
    if isinstance(value, bool):
        return name if value else f"no-{name}"
    words = value if isinstance(value, tuple) else (value,)
    return f"{name}-{'_'.join(f'{word:g}' if isinstance(word, float) else str(word) for word in words)}".replace(
        "*", "x"
    )

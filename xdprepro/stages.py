# SPDX-License-Identifier: GPL-2.0-or-later
"""The way of the packets of each kind of case, in stages: what entered a part of it, and where it is now."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xdprepro.cases import role_of
from xdprepro.places import Places
from xdprepro.sample import Counters
from xdprepro.stats import action_pattern, app_pattern, kind_of, remote_pattern, sum_counters

XDP_ACTIONS = ("XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT")
TC_ACTIONS = ("TC_ACT_OK", "TC_ACT_SHOT", "TC_ACT_STOLEN", "TC_ACT_REDIRECT")
ACTIONS: Mapping[str, tuple[str, ...]] = {"xdp_prog": XDP_ACTIONS, "tc_prog": TC_ACTIONS}
SOCKET_FULL = r"pkt\.tp_drops|udp\.drops"
FREED = ("XDP_ABORTED", "XDP_DROP")

Terms = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Ends:
    """What the counters of both ends grew by in a trial, and where their drivers count."""

    dut: Counters
    tester: Counters
    dut_places: Places
    tester_places: Places


@dataclass(frozen=True, slots=True)
class Stage:
    """Packets that entered a part of the way, and by name where they are now.

    `leaves`: they go out by the port. `copied`: so many of those that entered were made there.
    """

    name: str
    entered: int
    terms: Terms
    leaves: bool = False
    copied: int = 0

    @property
    def missing(self) -> int:
        """Packets that no counter accounts for; negative when more came out than went in."""
        return self.entered - sum(count for _, count in self.terms)


def make_stages(params: Mapping[str, Any], ends: Ends, *, accepted: int) -> tuple[Stage, ...]:
    """Stage by stage, each further one for packets that are a term of the one before."""
    role = role_of(params)
    if role == "ring":
        return (Stage("ring", accepted, (("ring.consumed", sum_counters(ends.dut, r"ring\.consumed")),)),)
    if role == "transmit":
        return (Stage("arrive", accepted, _arrive_terms(ends), leaves=True),)
    return tuple(_receive_stages(params, ends, accepted))


def _arrive_terms(ends: Ends) -> Terms:
    """What the DUT sent, at the tester."""
    return (*_before(ends.tester, ends.tester_places), ("returned", _count_actions(ends.tester, "xdp_prog")))


def _receive_stages(params: Mapping[str, Any], ends: Ends, accepted: int) -> Iterator[Stage]:
    kind, dut = kind_of(params), ends.dut
    seen = _seen_terms(params, dut)
    refused = _socket_losses(dut) if kind.uses_xsk else ()
    lost = _before(dut, ends.dut_places)
    # A counter that serves both sides of the program also has what the socket refused. Of the rest, as much as is
    # missing before the program was dropped there, and what remains must fit behind it.
    known = sum_terms(refused)
    known += sum(n for action, n in seen if action in FREED) if ends.dut_places.either_has_program else 0
    either = max(0, count(dut, ends.dut_places.either) - known)
    before = min(max(accepted - sum_terms(lost) - sum_terms(seen), 0), either)
    yield Stage("receive", accepted, _merge((*lost, ("before_program", before), *seen)))
    failed = (("redirect_error", either - before),)
    handled = dict(seen).get(kind.action, 0)
    if kind.uses_xsk:
        received = f"{kind.app}.rx_packets"
        taken = sum_counters(dut, app_pattern(params, "rx_packets"))
        yield Stage(kind.action, handled, ((received, taken), *refused, *failed))
        yield from _app_stages(params, ends, taken)
    elif params.get("remote"):
        yield from _remote_stages(params, ends, handled, failed)
    elif kind.app and not kind.program:
        yield from _app_stages(params, ends, dict(seen)[f"{kind.app}.rx_packets"])
    elif kind.role == "forward":
        all_of_them = handled * (params.get("fanout") or 1)
        terms = (*_leave_terms(ends, all_of_them), *failed)
        yield Stage(kind.action, all_of_them, terms, leaves=True, copied=all_of_them - handled)


def _seen_terms(params: Mapping[str, Any], dut: Counters) -> Terms:
    """What came through the driver, by whoever is first to count it there: a program, an application, or nobody."""
    kind = kind_of(params)
    if kind.program:
        return tuple((one, sum_counters(dut, action_pattern(one, kind.program))) for one in ACTIONS[kind.program])
    if kind.app:
        taken = sum_counters(dut, app_pattern(params, "rx_packets"))
        return ((f"{kind.app}.rx_packets", taken), ("socket_full", sum_counters(dut, SOCKET_FULL)))
    return (("to_stack", sum_counters(dut, r"netdev\.rx_packets")),)


def _socket_losses(dut: Counters) -> Terms:
    """What the kernel could not give to an AF_XDP socket; in copy mode an empty fill ring is one reason to drop."""
    dropped, full, empty = (
        sum_counters(dut, rf"xsk\.q\d+(\.s\d+)?\.{name}")
        for name in ("rx_dropped", "rx_ring_full", "rx_fill_ring_empty_descs")
    )
    unfilled = min(dropped, empty)
    return ("xsk_ring_full", full), ("xsk_fill_empty", unfilled), ("xsk_dropped", dropped - unfilled)


def _app_stages(params: Mapping[str, Any], ends: Ends, taken: int) -> Iterator[Stage]:
    """What an application received it sends on, or drops; a sink is the end."""
    kind, dut = kind_of(params), ends.dut
    sent, work, full = (sum_counters(dut, app_pattern(params, name)) for name in ("tx_packets", "dropped", "tx_drops"))
    dropped = (("work_drop", work), ("app_drop", full))
    if ".local" in params["case"]:
        yield Stage(f"{kind.app}.rx_packets", taken, ((f"{kind.app}.tx_packets", sent), *dropped))
        reached, refused = (sum_counters(dut, rf"local_netdev\.rx_{name}") for name in ("packets", "dropped"))
        yield Stage(f"{kind.app}.tx_packets", sent, (("to_stack", reached), ("not_sent", refused)))
    elif kind.role == "forward":
        yield Stage(f"{kind.app}.rx_packets", taken, ((f"{kind.app}.tx_packets", sent), *dropped))
        invalid = sum_counters(dut, r"xsk\.q\d+(\.s\d+)?\.tx_invalid_descs") if kind.uses_xsk else 0
        again = sum_counters(dut, app_pattern(params, "tx_errors")) if not kind.uses_xsk else 0
        leave = _leave_terms(ends, sent - invalid, again=again)
        yield Stage(f"{kind.app}.tx_packets", sent, (*leave, ("xsk_invalid", invalid)), leaves=True)


def _remote_stages(params: Mapping[str, Any], ends: Ends, handed: int, failed: Terms) -> Iterator[Stage]:
    """What a cpumap took; only tracepoints tell what it dropped, so that is what its program should have seen.

    Without a program of its own it hands to the stack what it took, and nobody counts.
    """
    if params["remote"] == "none":
        yield Stage("XDP_REDIRECT", handed, (("to_stack", handed - sum_terms(failed)), *failed))
        return
    seen = tuple((f"remote {one}", sum_counters(ends.dut, remote_pattern(one))) for one in XDP_ACTIONS)
    full = max(0, handed - sum_terms(seen) - sum_terms(failed))
    yield Stage("XDP_REDIRECT", handed, (*seen, ("cpumap_full", full), *failed))
    if params["remote"] == "redirect":
        forwarded = dict(seen)["remote XDP_REDIRECT"]
        yield Stage("remote XDP_REDIRECT", forwarded, _leave_terms(ends, forwarded), leaves=True)


def _leave_terms(ends: Ends, handed: int, *, again: int = 0) -> Terms:
    """Packets that were handed to the DUT's port; `again` were handed to it once more."""
    returned = _count_actions(ends.tester, "xdp_prog")
    return ("returned", returned), ("not_sent", count_unsent(ends.dut, ends.dut_places, handed, again=again))


def count_unsent(counters: Counters, places: Places, handed: int, *, again: int = 0) -> int:
    """Of the packets that were handed to a port, those that it did not send.

    A frame of AF_PACKET that the port refuses stays in the ring and is handed over again. The refusal is an error of
    the ring, and on most ports a drop, too; only drops beyond those errors are lost frames.
    """
    if places.sent:
        return handed - sum_counters(counters, places.sent)
    return max(0, count(counters, places.not_sent) - again)


def count(counters: Counters, pattern: str) -> int:
    """The sum of the counters of a pattern; "" has none."""
    return sum_counters(counters, pattern) if pattern else 0


def _before(counters: Counters, places: Places) -> Terms:
    return tuple((name, count(counters, pattern)) for name, pattern in places.before.items())


def _count_actions(counters: Counters, program: str) -> int:
    return sum_counters(counters, action_pattern(r"\w+", program))


def sum_terms(terms: Iterable[tuple[str, int]]) -> int:
    """Packets of all these places."""
    return sum(count for _, count in terms)


def _merge(terms: Terms) -> Terms:
    """Each name once."""
    merged: dict[str, int] = {}
    for name, packets in terms:
        merged[name] = merged.get(name, 0) + packets
    return tuple(merged.items())


def _app_sources(params: Mapping[str, Any]) -> set[str]:
    """An application's own counters, and those of the kernel about its sockets; one that only looks on has no part."""
    kind = kind_of(params)
    if not kind.in_app:
        return set()
    losses = {"xsk_app": "xsk", "pkt_app": "pkt", "udp_app": "udp"}
    local = {"local_netdev"} if ".local" in params["case"] else set()
    return {kind.app} | local | ({losses[kind.app]} if role_of(params) != "transmit" else set())


def needed_sources(params: Mapping[str, Any], places: Places) -> dict[str, tuple[str, ...]]:
    """The sources that the balance of a case needs, of each side that has a part in it."""
    kind, role = kind_of(params), role_of(params)
    if role == "ring":
        return {"dut": ("ring",)}
    leaves = (places.not_sent, places.sent) if role in ("forward", "transmit") else ()
    enters = (*places.before.values(), places.either) if role != "transmit" else ()
    sources = {name for pattern in (*leaves, *enters) for name in re.findall(r"(?:^|\|)(\w+)\\\.", pattern)}
    sources |= {kind.program if role != "transmit" else "", *_app_sources(params)} - {""}
    sources |= {"xdp_remote"} if params.get("remote") not in (None, "", "none") else set()
    tester = {"xdp_prog", "netdev"} | ({"generator"} if role != "transmit" else set())
    return {"dut": tuple(sorted(sources)), "tester": tuple(sorted(tester))}

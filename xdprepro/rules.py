# SPDX-License-Identifier: GPL-2.0-or-later
"""What parameters of one case contradict each other, each of which is allowed by itself."""

from collections.abc import Callable, Iterator, Sequence

from xdprepro.cases import LARGEST_IN_ONE_PAGE, LARGEST_IN_SMALL, SMALL_XSK_FRAME, Case

LEAST_FRAMES = 64  # of a socket, to the agent


def find_contradictions(case: Case) -> Iterator[tuple[str, str]]:
    """Facts, each with what mends it."""
    return ((fact.format(case=case), hint) for is_wrong, fact, hint in RULES if is_wrong(case))


def _dropped_flows(case: Case) -> int:
    """Those of the generator's flows that an access list of the case has."""
    return case.flows * case.drop_share // 100 if case.has("drop_share") else case.flows


def _socket_frames(case: Case) -> int:
    """What a socket's share of the memory is (specs._xsk_section)."""
    return (case.xsk_ring_fill or case.xsk_ring_rx * 2) // case.xsk_sockets


# What must not be, what is then said of the case, and what mends it.
RULES: Sequence[tuple[Callable[[Case], bool], str, str]] = (
    (
        lambda case: case.interval_s * 2 > case.measure_s,
        "interval_s {case.interval_s} leaves fewer than two intervals in measure_s {case.measure_s}",
        "make measure_s at least twice interval_s",
    ),
    (
        lambda case: case.frame_len > LARGEST_IN_ONE_PAGE and not case.frags and case.kind.program != "tc_prog",
        "frame_len {case.frame_len} does not fit into one page",
        f"add frags = true where the case has it, or use {LARGEST_IN_ONE_PAGE} at most",
    ),
    (
        lambda case: case.frame_len > LARGEST_IN_ONE_PAGE and case.generator == "live-frames",
        "live frames of {case.frame_len} bytes do not fit into one page",
        'use generator = "af-packet"',
    ),
    (
        lambda case: case.load == "fixed" and not case.rate_pps,
        "load = fixed has no rate",
        "add rate_pps",
    ),
    (
        lambda case: case.load == "closed" and case.role != "forward",
        "load = closed waits for packets that come back, and from this case none do",
        "use a case that forwards",
    ),
    (
        lambda case: case.load == "search" and case.pass_ != "rate",
        "pass = {case.pass_} measures no rate to search for",
        "use load = fixed",
    ),
    (
        lambda case: case.role == "ring" and case.pass_ != "rate",
        "pass = {case.pass_} looks at what the kernel does, and a ring is in user space",
        "leave pass away",
    ),
    (
        lambda case: case.ring_batch * 8 > case.ring_size,
        "ring_batch {case.ring_batch} is more than an eighth of ring_size {case.ring_size}",
        "make ring_size at least eight times ring_batch",
    ),
    (
        lambda case: case.xsk_sockets > 1 and not case.shared_umem,
        "xsk_sockets = {case.xsk_sockets} for each queue need a shared UMEM",
        "add shared_umem = true",
    ),
    (
        lambda case: case.xsk_sockets > 1 and case.case == "xsk.txonly",
        "xsk_sockets = {case.xsk_sockets}: sockets of a queue share its completion ring, and one would send for all",
        "use xsk_sockets = 1 with xsk.txonly",
    ),
    (
        lambda case: case.has("xsk_batch") and _socket_frames(case) < LEAST_FRAMES,
        f"a fill ring of that size leaves xsk_sockets = {{case.xsk_sockets}} fewer than {LEAST_FRAMES} frames each",
        "make xsk_ring_fill larger, or xsk_sockets fewer",
    ),
    (
        lambda case: case.has("acl") and case.acl < _dropped_flows(case),
        "an access list of {case.acl} entries cannot have the flows that are to be dropped, of {case.flows}",
        "set acl to the number of flows or more",
    ),
    (
        lambda case: case.has("sessions") and case.sessions < case.flows - (_dropped_flows(case) if case.acl else 0),
        "{case.sessions} sessions are fewer than flows, {case.flows}",
        "set sessions to the number of flows or more",
    ),
    (
        lambda case: case.xsk_frame_size == SMALL_XSK_FRAME and case.frame_len > LARGEST_IN_SMALL and not case.frags,
        "frame_len {case.frame_len} does not fit into xsk_frame_size {case.xsk_frame_size}",
        "use xsk_frame_size = 4096, or frags = true",
    ),
)

# SPDX-License-Identifier: GPL-2.0-or-later
"""The classes of places where packets end, and where each driver counts them (places.toml)."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

# class -> what it means, whatever the driver calls it. Actions of programs keep the kernel's names.
CLASSES: Mapping[str, str] = {
    "rx_phy_discard": "the adapter had no room",
    "no_buffer": "no receive descriptor or buffer was free",
    "rx_error": "the frame was broken",
    "before_program": "the driver dropped it before the program",
    "not_sent": "XDP_TX, a redirect, or what an application or the stack sends: the port did not take it",
    "redirect_error": "the redirect failed in the kernel",
    "cpumap_full": "the queue of the other CPU was full: redirected to it, and never seen by its program",
    "xsk_ring_full": "the socket's receive ring was full",
    "xsk_fill_empty": "the socket's fill ring was empty",
    "xsk_dropped": "the socket refused it for another reason",
    "xsk_invalid": "the kernel refused the descriptor that the application sent",
    "socket_full": "the socket's buffer or ring was full",
    "work_drop": "the work of the case dropped it, as it should",
    "app_drop": "the application had no room to send it",
    "to_stack": "handed to the stack, which drops it",
    "returned": "it came back to the tester",
}


@dataclass(frozen=True, slots=True)
class Places:
    """Where a driver counts packets that stop on the way: regular expressions on edge counters, "" for none."""

    checked: bool
    not_sent: str = ""
    sent: str = ""
    either: str = ""
    either_has_program: bool = False
    before: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[str, str] = field(default_factory=dict)

    @property
    def patterns(self) -> tuple[str, ...]:
        """All that the table names."""
        return (self.not_sent, self.sent, self.either, *self.before.values(), *self.hints.values())


def parse_places(text: str) -> dict[str, Places]:
    """A table for each driver."""
    return {driver: Places(**values) for driver, values in tomllib.loads(text).items()}


PLACES: Mapping[str, Places] = parse_places((resources.files("xdprepro") / "places.toml").read_text(encoding="utf-8"))

# For a driver not looked at yet: rtnl_link_stats64 as its documentation defines it. rx_dropped is left out, as the
# stack adds what it drops after XDP_PASS.
GENERIC = Places(
    checked=False,
    not_sent=r"netdev\.tx_(dropped|errors)",
    before={"before_program": r"netdev\.rx_(missed_)?errors"},
)

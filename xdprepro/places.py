# SPDX-License-Identifier: GPL-2.0-or-later
"""Where drivers count packets that stop on the way."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Places:
    """Where a driver counts packets that stop on the way: regular expressions on edge counters, "" for none."""

    unsent: str  # handed over by the generator, or forwarded by the program, but never sent
    unseen: str  # DUT: received, but dropped before the program
    either: str = ""  # DUT: one counter for both, a drop before the program and a redirect that failed
    either_has_program: bool = False  # that counter also has what the program dropped
    sent: str = ""  # what left the port, of a driver that does not count what did not


PLACES: Mapping[str, Places] = {
    # The two tx_dropped hold what ndo_start_xmit and ndo_xdp_xmit could not put into the peer's ring or backlog, so
    # softnet's dropped would count the same packets again. rx_queue_N_drops: no memory, or a redirect that failed.
    # Two CPUs that send into one queue lose additions to these plain counters; such a trial is rightly open.
    "veth": Places(unsent=r"netdev\.tx_dropped", unseen="", either=r"ethtool\.rx_queue_\d+_drops"),
    # igb counts no frame that it has no room for, but every one that the adapter took. rx_fifo_errors holds what found
    # no descriptor (ethtool's rx_queue_N_drops), rx_missed_errors what found no room in the adapter.
    "igb": Places(unsent="", unseen=r"netdev\.rx_(missed_|fifo_)?errors", sent=r"netdev\.tx_packets"),
    # vmxnet3 counts a refusal once, however many frames of the batch it concerns, but every frame sent.
    "vmxnet3": Places(
        unsent="",
        unseen=r"ethtool\. +(pkts rx (OOB|err)|drv dropped rx total)(#\d+)?",
        sent=r"netdev\.tx_packets",
    ),
    # virtio_net adds what the program drops, and redirects that failed, to the drops of the receive queue. What XDP
    # could not send is in the transmit queue's, what the stack could not in tx_dropped. Older kernels call the queues
    # rx_queue_N and tx_queue_N.
    "virtio_net": Places(
        unsent=r"netdev\.tx_dropped|ethtool\.tx(_queue_)?\d+_xdp_tx_drops",
        unseen="",
        either=r"ethtool\.rx(_queue_)?\d+_drops",
        either_has_program=True,
    ),
    # Without XDP in the driver, the program runs in the stack, after all that the driver can drop.
    "e1000e": Places(unsent=r"netdev\.tx_(dropped|errors)", unseen=r"netdev\.rx_(missed_)?errors"),
}

# For a driver not looked at yet: rtnl_link_stats64 as its documentation defines it. rx_dropped is left out, as the
# stack adds what it drops after XDP_PASS.
GENERIC = Places(unsent=r"netdev\.tx_(dropped|errors)", unseen=r"netdev\.rx_(missed_)?errors")

# SPDX-License-Identifier: GPL-2.0-or-later
"""The door to QEMU: guests that hold a kernel and the agent, and the instructions that they executed."""

from xdprepro.guest.accel import Accel, find_accel
from xdprepro.guest.boot import Boot, Failure, boot
from xdprepro.guest.ports import PORTS, Port
from xdprepro.guest.profile import Counted, read_counted
from xdprepro.guest.qemu import Machine, check_qemu, have_model

__all__ = [
    "PORTS",
    "Accel",
    "Boot",
    "Counted",
    "Failure",
    "Machine",
    "Port",
    "boot",
    "check_qemu",
    "find_accel",
    "have_model",
    "read_counted",
]

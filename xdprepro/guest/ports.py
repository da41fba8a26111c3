# SPDX-License-Identifier: GPL-2.0-or-later
"""The ports that a guest can have: always two of a kind, dut and tester, joined by a cable."""

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Port:
    """`model` is QEMU's name for the device, empty where the kernel makes the pair itself.

    `live_frames` is whether every kernel that can send them gets them across.
    """

    driver: str
    config: str  # the kernel's option for the driver
    attach_modes: tuple[str, ...]
    model: str = ""
    options: str = ""
    modules: tuple[str, ...] = ()  # besides the driver
    live_frames: bool = True


_VIRTIO_NET = Port(
    "virtio_net",
    "CONFIG_VIRTIO_NET",
    ("native", "skb"),
    model="virtio-net-pci",
    # QEMU's main loop runs beside the guest and would send at its own time; the guest's timers are the guest's.
    options="ioeventfd=off,tx=timer",
    modules=("virtio_pci",),
    # The driver moves a frame's data to make room for its header, and kernels before 6.2 hand such frames out again
    # as they are: half of them are lost. One generator for all kernels, or none could be compared.
    live_frames=False,
)

PORTS: Mapping[str, Port] = {
    "veth": Port("veth", "CONFIG_VETH", ("native", "skb")),
    "virtio-net": _VIRTIO_NET,
    # The device's memory goes through the DMA API (VIRTIO_F_ACCESS_PLATFORM), without which AF_XDP has no zero-copy.
    "virtio-net-dma": replace(_VIRTIO_NET, options=f"{_VIRTIO_NET.options},iommu_platform=on"),
    "igb": Port("igb", "CONFIG_IGB", ("native", "skb"), model="igb"),
    "vmxnet3": Port("vmxnet3", "CONFIG_VMXNET3", ("native", "skb"), model="vmxnet3"),
    "e1000e": Port("e1000e", "CONFIG_E1000E", ("skb",), model="e1000e"),
}


def make_cable(port: Port, macs: Mapping[str, str]) -> list[str]:
    """QEMU's arguments for one device an end, all on one hub; nothing for a pair that the kernel makes."""
    if not port.model:
        return []
    argv = []
    for number, (end, mac) in enumerate(macs.items(), start=1):
        # Each on a root port of its own: the virtual functions of two igb on one bus would want the same slots.
        argv += ["-netdev", f"hubport,id={end},hubid=0"]
        argv += ["-device", f"pcie-root-port,id={end}-slot,chassis={number},slot={number}"]
        options = f",{port.options}" if port.options else ""
        argv += ["-device", f"{port.model},bus={end}-slot,netdev={end},mac={mac}{options}"]
    return argv

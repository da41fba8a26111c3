# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU itself: whether it is there, what it can emulate, and how it is called so that a guest's course repeats."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xdprepro import cmd
from xdprepro.errors import UNAVAILABLE, XdpreproError
from xdprepro.guest.ports import PORTS, make_cable

QEMU = "qemu-system-x86_64"
ROOT = Path(__file__).parent.parent.parent
PLUGIN = ROOT / "native/qemu-plugin/build/libxdprepro-count.so"
# The first whose plugin interface can read the memory of a guest, which is how the plugin learns who runs.
OLDEST = (9, 2)
# The last that has version 4 of that interface, which is the one that the plugin knows.
NEWEST_COUNTED = (10, 0)
INSTALL = (
    "install QEMU 9.2 to 10.0: 'make setup' does on Debian 12 and 13, elsewhere build it if no package is of these"
)
RESULTS = "xdprepro.results"  # the agent looks for a virtio port of this name

ACCELS: Mapping[str, tuple[str, ...]] = {
    # One instruction is one nanosecond of the guest's time, and a guest that idles skips to its next timer.
    "count": ("-accel", "tcg", "-icount", "shift=0,sleep=off"),
    "tcg": ("-accel", "tcg"),
    "kvm": ("-accel", "kvm"),
}
CHANNELS: Mapping[str, tuple[str, ...]] = {
    "virtio-serial": (
        *("-device", "virtio-serial-pci,ioeventfd=off"),
        *("-device", f"virtserialport,chardev=results,name={RESULTS}"),
    ),
    "serial": ("-device", "isa-serial,chardev=results,index=1"),
}
CHANNEL_MODULES: Mapping[str, tuple[str, ...]] = {"virtio-serial": ("virtio_pci", "virtio_console"), "serial": ()}
# Addresses that repeat, and an end at once where a user's machine would wait for somebody to look at it.
CMDLINE = "console=ttyS0 nokaslr panic=-1 oops=panic"
# Where an instruction is a nanosecond, measuring the local timer's frequency would take 200 million of them, and the
# tests of ciphers that nobody here uses a billion, of which the slowest would run on into the first window.
COUNT_CMDLINE = "nolapic_timer cryptomgr.notests"


@dataclass(frozen=True)
class Machine:
    """How a kernel is booted. `accel` is `count` for instructions, `tcg` or `kvm` for rates."""

    port: str
    accel: str = "count"
    cpu: str = "max"
    memory_mib: int = 1024
    cmdline: str = ""  # words after our own
    channel: str = "virtio-serial"
    rtc: str = "2026-01-01"
    memory_pass: bool = False


@dataclass(frozen=True)
class Files:
    """What a guest reads, and what it leaves."""

    image: Path
    initramfs: Path | None
    console: Path
    results: Path
    counts: Path


@cache
def check_qemu(*, counting: bool = False) -> str:
    """QEMU's version; raises XdpreproError(status=UNAVAILABLE) where it is missing, too old, or too new to count."""
    try:
        said = cmd.run([QEMU, "--version"]).stdout
    except XdpreproError as error:
        raise XdpreproError(error.message, hint=INSTALL, status=UNAVAILABLE) from None
    found = re.search(r"version (\d+)\.(\d+)\S*(?: \(\S+ \S+\))?", said)
    if not found:
        raise XdpreproError(f"{QEMU}: no version in {said[:80]!r}", hint=INSTALL, status=UNAVAILABLE)
    version = int(found[1]), int(found[2])
    if version < OLDEST:
        fact = f"QEMU is {_format(version)}, the emulated bench needs {_format(OLDEST)}"
        raise XdpreproError(fact, hint=INSTALL, status=UNAVAILABLE)
    if counting and version > NEWEST_COUNTED:
        fact = (
            f"QEMU is {_format(version)}, instructions are counted with {_format(OLDEST)} to {_format(NEWEST_COUNTED)}"
        )
        raise XdpreproError(fact, hint=INSTALL, status=UNAVAILABLE)
    return found[0].removeprefix("version ")


def _format(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def have_model(model: str) -> bool:
    """Whether this QEMU can emulate a device, by QEMU's name for it."""
    return model in _list_models()


def check_port(name: str) -> None:
    """Refuse a port that this QEMU has no model for."""
    model = PORTS[name].model
    if model and not have_model(model):
        raise XdpreproError(f"QEMU {check_qemu()} has no model {model}", hint=INSTALL, status=UNAVAILABLE)


def make_argv(machine: Machine, files: Files, macs: Mapping[str, str], markers: Mapping[str, str]) -> list[str]:
    """The whole command; `markers` are the agent's addresses that the plugin watches."""
    argv = [QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    argv += ["-M", "q35", "-cpu", machine.cpu, "-smp", "1", "-m", str(machine.memory_mib)]
    argv += [*ACCELS[machine.accel], "-rtc", f"base={machine.rtc},clock=vm", "-seed", "1"]
    argv += ["-kernel", str(files.image), *(["-initrd", str(files.initramfs)] if files.initramfs else [])]
    argv += ["-append", make_cmdline(machine)]
    argv += ["-serial", f"file:{files.console}"]
    argv += ["-chardev", f"file,id=results,path={escape(files.results)}", *CHANNELS[machine.channel]]
    argv += make_cable(PORTS[machine.port], macs)
    return argv + (_plugin(machine, files, markers) if machine.accel == "count" and markers else [])


def make_cmdline(machine: Machine) -> str:
    """The kernel's command line: our words, and then the machine's."""
    return " ".join(filter(None, (CMDLINE, COUNT_CMDLINE if machine.accel == "count" else "", machine.cmdline)))


def escape(path: Path) -> str:
    """A path as a value among QEMU's options, which commas part."""
    return str(path).replace(",", ",,")


@cache
def _list_models() -> frozenset[str]:
    check_qemu()
    return frozenset(re.findall(r'^name "([^"]+)"', cmd.run([QEMU, "-device", "help"]).stdout, re.MULTILINE))


def _plugin(machine: Machine, files: Files, markers: Mapping[str, str]) -> list[str]:
    options = [escape(PLUGIN), f"out={escape(files.counts)}", *(f"{name}={at}" for name, at in markers.items())]
    return ["-plugin", ",".join([*options, *(["memory=on"] if machine.memory_pass else [])])]

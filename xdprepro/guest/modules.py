# SPDX-License-Identifier: GPL-2.0-or-later
"""Which modules of a kernel a guest must load, and in which order."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath

from xdprepro.errors import UNAVAILABLE, XdpreproError
from xdprepro.guest.ports import PORTS
from xdprepro.kernel import Kernel

CONFIGS = {port.driver: port.config for port in PORTS.values()} | {
    "virtio_pci": "CONFIG_VIRTIO_PCI",
    "virtio_console": "CONFIG_VIRTIO_CONSOLE",
}


def find_modules(kernel: Kernel, wanted: Iterable[str]) -> tuple[Path, ...]:
    """The files to load, each after what it depends on; what is built in has none.

    Of a kernel without a directory of modules nothing is known, so nothing is loaded: its guest says what it lacks.
    """
    if kernel.modules is None:
        return ()
    needs = _read_dependencies(kernel.modules / "modules.dep")
    before = _read_softdeps(kernel.modules / "modules.softdep")
    built_in = {module_name(line) for line in _read_lines(kernel.modules / "modules.builtin")}
    paths = {module_name(path): path for path in needs}
    order: dict[str, None] = {}

    def add(name: str) -> None:
        path = paths[name]
        # modules.dep has the last to be loaded first.
        for need in reversed(needs[path]):
            order.setdefault(need)
        for soft in before.get(name, ()):
            if soft in paths:
                add(soft)
        order.setdefault(path)

    for name in map(module_name, wanted):
        if name in paths:
            add(name)
        elif name not in built_in:
            raise _missing(kernel, name)
    return tuple(kernel.modules / path for path in order)


def module_name(path: str) -> str:
    """As the kernel shows it: `virtio_net` of kernel/drivers/net/virtio-net.ko.xz."""
    return PurePath(path).name.partition(".ko")[0].replace("-", "_")


def _read_dependencies(path: Path) -> Mapping[str, list[str]]:
    pairs = (line.partition(":") for line in _read_lines(path))
    return {module: needs.split() for module, _, needs in pairs}


def _read_softdeps(path: Path) -> Mapping[str, list[str]]:
    """The modules that a module wants before it, of those that are named and not spelled as an alias."""
    if not path.exists():
        return {}
    found: dict[str, list[str]] = {}
    for line in _read_lines(path):
        if match := re.fullmatch(r"softdep (\S+) (?:.* )?pre: (.*?)(?: post:.*)?", line):
            found.setdefault(module_name(match[1]), []).extend(map(module_name, match[2].split()))
    return found


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError as error:
        raise XdpreproError(f"{path}: {error.strerror}", hint="fetch or build the kernel again") from None


def _missing(kernel: Kernel, name: str) -> XdpreproError:
    if "cloud" in kernel.release:
        hint = "Debian's cloud flavour leaves hardware drivers out: take the package without -cloud"
    else:
        hint = f"build the kernel with {CONFIGS.get(name, 'its option')}"
    fact = f"kernel {kernel.release} has no driver {name}, neither built in nor as a module"
    return XdpreproError(fact, hint=hint, status=UNAVAILABLE)

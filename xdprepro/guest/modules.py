# SPDX-License-Identifier: GPL-2.0-or-later
"""Which modules of a kernel a guest must load, and in which order."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath

from xdprepro.errors import UNAVAILABLE, XdpreproError
from xdprepro.guest.ports import PORTS
from xdprepro.kernel import MODULE_SUMS, Kernel, KernelError

CONFIGS = {port.driver: port.config for port in PORTS.values()} | {
    "virtio_pci": "CONFIG_VIRTIO_PCI",
    "virtio_console": "CONFIG_VIRTIO_CONSOLE",
}

LISTS = ("modules.dep", "modules.softdep", "modules.builtin")  # by which find_modules goes


def find_modules(kernel: Kernel, wanted: Iterable[str], *, welcome: Iterable[str] = ()) -> tuple[Path, ...]:
    """The files to load, each after what it depends on; what is built in has none. Some are `welcome` and not needed.

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

    for name in (*map(module_name, wanted), *(name for name in welcome if name in paths)):
        if name in paths:
            add(name)
        elif name not in built_in:
            raise _missing(kernel, name)
    return tuple(kernel.modules / path for path in order)


def check_modules(kernel: Kernel, paths: Iterable[Path]) -> None:
    """Refuse modules, or lists of what they need, that were changed in the cache since the kernel came into it."""
    if kernel.modules is None or kernel.modules_sha256 is None:
        return
    entry = kernel.modules.parent
    lists = (path for name in LISTS if (path := kernel.modules / name).exists())
    sums = entry / MODULE_SUMS
    _check_sum(kernel, sums, kernel.modules_sha256)
    known = {name: digest for digest, _, name in (line.partition("  ") for line in _read_lines(sums))}
    for path in (*lists, *paths):
        _check_sum(kernel, path, known.get(str(path.relative_to(entry)), "none"))


def _check_sum(kernel: Kernel, path: Path, expected: str) -> None:
    if hashlib.sha256(_read_bytes(path)).hexdigest() != expected:
        raise KernelError(
            f"kernel {kernel.key}: {path.name} is not what was put into the cache: its SHA-256 differs",
            reason="damaged",
            hint=f"'xdprepro kernel prune {kernel.key}' removes it, and the next run gets it anew",
        )


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
    return _read_bytes(path).decode(errors="replace").splitlines()


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise XdpreproError(f"{path}: {error.strerror}", hint="fetch or build the kernel again") from None


def _missing(kernel: Kernel, name: str) -> XdpreproError:
    if "cloud" in kernel.release:
        hint = "Debian's cloud flavour leaves hardware drivers out: take the package without -cloud"
    else:
        hint = f"build the kernel with {CONFIGS.get(name, 'its option')}"
    fact = f"kernel {kernel.release} has no driver {name}, neither built in nor as a module"
    return XdpreproError(fact, hint=hint, status=UNAVAILABLE)

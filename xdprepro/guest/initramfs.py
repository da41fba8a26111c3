# SPDX-License-Identifier: GPL-2.0-or-later
"""The micro guest's file system: the agent as /init, its job and its modules. The same parts make the same bytes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xdprepro.guest.modules import module_name
from xdprepro.guest.unpack import read_module

DIRECTORY, PROGRAM, FILE = 0o040755, 0o100755, 0o100644
HEADER = 110  # bytes of a newc header, before the name


def make_initramfs(agent: Path, job: Mapping[str, Any], modules: Sequence[Path]) -> bytes:
    """The whole archive, uncompressed: the guest would take longer to decompress it than to copy it."""
    names = name_modules(modules)
    job = {**job, "modules": names}
    entries = [("init", PROGRAM, agent.read_bytes()), ("job.json", FILE, json.dumps(job, sort_keys=True).encode())]
    entries.append(("modules", DIRECTORY, b""))
    entries += [(f"modules/{name}", FILE, read_module(path)) for name, path in zip(names, modules, strict=True)]
    return format_cpio(entries)


def name_modules(modules: Iterable[Path]) -> list[str]:
    """Their names in the guest, which sort in the order in which they are loaded."""
    return [f"{number:02}-{module_name(str(path))}.ko" for number, path in enumerate(modules)]


def format_cpio(entries: Iterable[tuple[str, int, bytes]]) -> bytes:
    """A newc archive (Documentation/driver-api/early-userspace/buffer-format.rst) of (name, mode, data)."""
    trailer = ("TRAILER!!!", 0, b"")
    parts = []
    for inode, (name, mode, data) in enumerate([*entries, trailer], start=1):
        encoded = name.encode() + b"\0"
        links = 2 if mode == DIRECTORY else 1
        # inode, mode, uid, gid, links, mtime, size, numbers of its device and of the node, name's size, checksum
        fields = (inode, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
        parts += [head, _pad(len(head)), data, _pad(len(data))]
    return b"".join(parts)


def _pad(size: int) -> bytes:
    return b"\0" * (-size % 4)

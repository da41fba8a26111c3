# SPDX-License-Identifier: GPL-2.0-or-later
"""What a bzImage says of itself: its release, and the build id of the kernel that is packed in it."""

from __future__ import annotations

import bz2
import lzma
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

# Offsets of the setup header, as in Documentation/arch/x86/boot.rst.
SETUP_SECTS, SYSSIZE, BOOT_FLAG, HEADER, VERSION, KERNEL_VERSION = 0x1F1, 0x1F4, 0x1FE, 0x202, 0x206, 0x20E
PAYLOAD_OFFSET, PAYLOAD_LENGTH = 0x248, 0x24C
PAYLOAD_SINCE = 0x0208  # the protocol version

PT_NOTE = 4
NT_GNU_BUILD_ID = 3


def read_release(image: Path) -> str | None:
    """The release in the setup header, or None for what is no bzImage."""
    data = image.read_bytes()
    if not _is_bzimage(data):
        return None
    begin = struct.unpack_from("<H", data, KERNEL_VERSION)[0] + 0x200
    words = data[begin : data.find(b"\0", begin)].decode(errors="replace").split()
    return words[0] if words else None


def count_missing(image: Path) -> int:
    """The bytes by which a bzImage is shorter than its header says; a signature may make it longer."""
    data = image.read_bytes()
    paragraphs: int = struct.unpack_from("<I", data, SYSSIZE)[0]
    return max(0, _protected_begin(data) + paragraphs * 16 - len(data))


def read_build_id(image: Path) -> str | None:
    """The GNU build id in hex; None where there is none, or nothing here unpacks the kernel."""
    data = image.read_bytes()
    vmlinux = _unpack(_payload(data)) if _is_bzimage(data) else data
    return _find_build_id(vmlinux) if vmlinux[:4] == b"\x7fELF" else None


def _is_bzimage(data: bytes) -> bool:
    return len(data) > 0x250 and data[HEADER : HEADER + 4] == b"HdrS" and data[BOOT_FLAG : BOOT_FLAG + 2] == b"\x55\xaa"


def _protected_begin(data: bytes) -> int:
    """Behind the boot sector and the set-up, which has four sectors where the header says none."""
    return ((data[SETUP_SECTS] or 4) + 1) * 512


def _payload(data: bytes) -> bytes:
    if struct.unpack_from("<H", data, VERSION)[0] < PAYLOAD_SINCE:
        return b""
    begin = _protected_begin(data) + struct.unpack_from("<I", data, PAYLOAD_OFFSET)[0]
    return data[begin : begin + struct.unpack_from("<I", data, PAYLOAD_LENGTH)[0]]


def _unpack(payload: bytes) -> bytes:
    """The kernel; four bytes with its size may follow the compressed stream."""
    for magic, unpack in UNPACKERS.items():
        if payload.startswith(magic):
            try:
                return unpack(payload)
            except (OSError, EOFError, lzma.LZMAError, zlib.error):
                return b""
    return payload


def _by_program(*argv: str) -> Callable[[bytes], bytes]:
    """Python 3.11 unpacks neither zstd nor lz4. The exit status tells nothing, as the size behind it is no stream."""

    def unpack(payload: bytes) -> bytes:
        if not shutil.which(argv[0]):
            return b""
        return subprocess.run(argv, input=payload, capture_output=True, check=False).stdout

    return unpack


UNPACKERS: dict[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": lambda data: zlib.decompressobj(wbits=31).decompress(data),
    b"\xfd7zXZ": lambda data: lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(data),
    b"\x5d\0\0": lambda data: lzma.LZMADecompressor(lzma.FORMAT_ALONE).decompress(data),
    b"BZh": lambda data: bz2.BZ2Decompressor().decompress(data),
    b"\x28\xb5\x2f\xfd": _by_program("zstd", "--decompress", "--stdout", "--quiet"),
    b"\x02\x21\x4c\x18": _by_program("lz4", "-d", "-c", "-q"),
}


def _find_build_id(vmlinux: bytes) -> str | None:
    offset, size, count = (
        struct.unpack_from(form, vmlinux, at)[0] for form, at in (("<Q", 32), ("<H", 54), ("<H", 56))
    )
    for at in range(offset, offset + size * count, size):
        kind, _, begin, _, _, length = struct.unpack_from("<IIQQQQ", vmlinux, at)
        if kind == PT_NOTE and (found := _read_note(vmlinux[begin : begin + length])):
            return found
    return None


def _read_note(notes: bytes) -> str | None:
    at = 0
    while at + 12 <= len(notes):
        name_len, desc_len, kind = struct.unpack_from("<III", notes, at)
        desc = at + 12 + (name_len + 3 & ~3)
        if kind == NT_GNU_BUILD_ID and notes[at + 12 : at + 16] == b"GNU\0":
            return notes[desc : desc + desc_len].hex()
        at = desc + (desc_len + 3 & ~3)
    return None

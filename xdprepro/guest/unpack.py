# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels and modules unpacked on the host, where it takes a tenth of the time that it takes an emulated processor."""

import lzma
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from xdprepro import cmd
from xdprepro.errors import XdpreproError
from xdprepro.scratch import start_scratch

ELF = b"\x7fELF"
GZIP, XZ, ZSTD = b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"
# Documentation/arch/x86/boot.rst: sectors of the real-mode part, and where in the rest the packed kernel is.
SECTORS, HEADER, PAYLOAD = 0x1F1, 0x202, 0x248
PAYLOAD_SINCE = 0x208  # version of the boot protocol
# The note with the entry for a loader that has unpacked the kernel (XEN_ELFNOTE_PHYS32_ENTRY), of 32 or 64 bits.
ENTRY_NOTES = tuple(struct.pack("<III4s", 4, size, 18, b"Xen\0") for size in (4, 8))


def read_module(path: Path) -> bytes:
    """What is in a module's file, whatever packed it; a small kernel has no decompressor of its own."""
    data = path.read_bytes()
    try:
        module = unpack(data)
    except (zlib.error, lzma.LZMAError, EOFError, XdpreproError) as error:
        raise XdpreproError(f"{path}: cannot be unpacked: {error}", hint="fetch the kernel again") from None
    if not module.startswith(ELF):
        raise XdpreproError(f"{path}: not a kernel module", hint="fetch the kernel again")
    return module


def read_vmlinux(image: Path) -> bytes | None:
    """The kernel inside a bzImage, None where it cannot be started without its own unpacker (CONFIG_PVH is off)."""
    data = image.read_bytes()
    if len(data) < PAYLOAD + 8 or struct.unpack_from("<H", data, HEADER + 4)[0] < PAYLOAD_SINCE:
        return None
    offset, length = struct.unpack_from("<II", data, PAYLOAD)
    payload = data[(data[SECTORS] + 1) * 512 + offset :][:length]
    # After the packed kernel comes its size, 4 bytes; zstd alone minds.
    try:
        kernel = unpack(payload[:-4] if payload.startswith(ZSTD) else payload)
    except (zlib.error, lzma.LZMAError, EOFError, XdpreproError):
        return None
    return kernel if kernel.startswith(ELF) and any(note in kernel for note in ENTRY_NOTES) else None


def unpack(data: bytes) -> bytes:
    """By what the data begin with; of what is not packed, or in a way that is not known here, the data themselves."""
    opener = next((opener for magic, opener in OPENERS.items() if data.startswith(magic)), None)
    return opener(data) if opener else data


def _ungzip(data: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    return _whole(stream.decompress(data), eof=stream.eof)


def _unxz(data: bytes) -> bytes:
    stream = lzma.LZMADecompressor()
    return _whole(stream.decompress(data), eof=stream.eof)


def _unzstd(data: bytes) -> bytes:
    """By the program, as Python 3.11 has no module for it."""
    with start_scratch() as place:
        packed, plain = place / "packed.zst", place / "plain"
        packed.write_bytes(data)
        cmd.run(["zstd", "--decompress", "--quiet", packed, "-o", plain])
        return plain.read_bytes()


def _whole(data: bytes, *, eof: bool) -> bytes:
    if not eof:
        raise EOFError("it is cut off")
    return data


OPENERS: Mapping[bytes, Callable[[bytes], bytes]] = {GZIP: _ungzip, XZ: _unxz, ZSTD: _unzstd}

# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels of a few instructions that do one wrong thing; QEMU boots them by Multiboot."""

import hashlib
import struct
from pathlib import Path

from xdprepro.kernel import Kernel

BASE = 0x100000
CONSOLE, RESULTS = 0x3F8, 0x2F8  # ttyS0 and ttyS1
HEADER = 32  # bytes of the Multiboot header with addresses
HANG = b"\xeb\xfe"  # jmp to itself
# q35 switches off where the sleep type is written to its ACPI registers: mov dx, 604h; mov ax, 2000h; out dx, ax
OFF = bytes.fromhex("66ba0406 66b80020 66ef") + HANG


def make_kernel(path: Path, *parts: tuple[int, str] | bytes, repeat: bool = False) -> Kernel:
    """A kernel that writes texts to ports and executes code, in order; then it hangs, or does all of it again."""
    code, texts = b"", b""
    size = sum(len(part) if isinstance(part, bytes) else len(write_text(0, 0)) for part in parts) + 5
    for part in parts:
        if isinstance(part, bytes):
            code += part
        else:
            port, text = part
            code += write_text(port, BASE + HEADER + size + len(texts))
            texts += text.encode() + b"\0"
    # jmp to the first instruction
    code += b"\xe9" + struct.pack("<i", -len(code) - 5) if repeat else HANG + b"\x90" * 3
    flags = 1 << 16
    end = BASE + HEADER + len(code) + len(texts)
    addresses = (BASE, BASE, end, end, BASE + HEADER)
    image = struct.pack("<8I", 0x1BADB002, flags, -(0x1BADB002 + flags) & 0xFFFFFFFF, *addresses) + code + texts
    path.write_bytes(image)
    return kernel_of(path)


def write_text(port: int, address: int) -> bytes:
    """mov esi, address; mov dx, port; next: lodsb; test al, al; jz done; out dx, al; jmp next; done:"""
    return (
        b"\xbe" + struct.pack("<I", address) + b"\x66\xba" + struct.pack("<H", port) + bytes.fromhex("ac84c07403eeebf8")
    )


def kernel_of(image: Path, release: str = "tiny", modules: Path | None = None) -> Kernel:
    return Kernel(
        key=f"{release}-000000000000",
        spec=f"image:{image}",
        kind="image",
        release=release,
        image=image,
        image_sha256=hashlib.sha256(image.read_bytes()).hexdigest() if image.exists() else "",
        modules=modules,
        config=None,
        system_map=None,
        build_id=None,
        compiler=None,
        source={},
        log=None,
        created_utc="2026-01-01T00:00:00Z",
        size_bytes=0,
    )

# SPDX-License-Identifier: GPL-2.0-or-later
"""Which function an address of a guest belongs to. What is not known is `unknown`, never the symbol before it."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

USER, UNKNOWN = "user", "unknown"
PAGE = 4096
KERNEL_HALF = 1 << 63
# Where text of the kernel itself ends; what comes after is not its last function.
ENDS = ("_etext", "_einittext", "__init_end", "__end_rodata")
# A section's begin and end have names of their own, and are where a function is, too.
MARK = re.compile(r"_text_(start|end)|_thunk_(start|end)|_s?text|_etext")
PREFIX = "__pfx_"  # room before a function, which call depth tracking fills with code
SYMBOL = re.compile(r"([0-9a-f]{8,16}) [tTwW] (\S+)(?:\s+\[(\S+)\])?")


@dataclass(frozen=True)
class Symbols:
    """Sorted addresses, and the function from each up to the next."""

    starts: Sequence[int]
    names: Sequence[str]

    def find(self, address: int) -> str:
        """`name`, of a module `name [module]`; `user` for the lower half of the address space."""
        if address < KERNEL_HALF:
            return USER
        place = bisect_right(self.starts, address) - 1
        return self.names[place] if place >= 0 else UNKNOWN


def parse_kallsyms(text: str) -> Symbols:
    """The functions of a guest's /proc/kallsyms.

    Nothing there says where a module's last function ends; it is taken to be the end of the page in which it starts.
    """
    known: dict[int, tuple[str, str]] = {}
    for address, name, module in SYMBOL.findall(text):
        start, new = int(address, 16), (name.removeprefix(PREFIX), module)
        old = known.get(start)
        known[start] = min(old, new, key=_plainness) if old else new
    starts: list[int] = []
    names: list[str] = []
    last_module = ""
    for start, (name, module) in sorted(known.items()):
        if last_module and module != last_module and (page_end := _page_end(starts[-1])) < start:
            starts.append(page_end)
            names.append(UNKNOWN)
        starts.append(start)
        names.append(UNKNOWN if name in ENDS else _shown(name, module))
        last_module = module
    if last_module:
        starts.append(_page_end(starts[-1]))
        names.append(UNKNOWN)
    return Symbols(starts, names)


def join_kallsyms(lines: Iterable[dict[str, object]]) -> str:
    """The text that a guest sent in pieces."""
    return "".join(str(line["kallsyms"]) for line in lines if "kallsyms" in line)


def _plainness(symbol: tuple[str, str]) -> tuple[bool, int, int, str]:
    """Of the names of one address, the one that people say comes first: no section's, few `_` in front, short."""
    name = symbol[0]
    return bool(MARK.search(name)), len(name) - len(name.lstrip("_")), len(name), name


def _shown(name: str, module: str) -> str:
    """Without what changes from boot to boot, such as the tag of a program, or which of them is at an address now."""
    if module != "bpf":
        return f"{name} [{module}]" if module else name
    if name.startswith("bpf_prog_"):
        return "bpf:other"
    return re.sub(r"_\d+$", "", name) + " [bpf]"


def _page_end(address: int) -> int:
    return (address // PAGE + 1) * PAGE

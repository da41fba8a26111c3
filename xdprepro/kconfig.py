# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel configurations: read, and compared; what a kernel's version brings is told apart from somebody's choice."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

SWITCH = ("y", "m", "n")
LINE = re.compile(r"(?:CONFIG_(?P<set>\w+)=(?P<value>.*)|# CONFIG_(?P<unset>\w+) is not set)\s*")

# Symbols that tell of tools, versions and files, and by themselves change nothing that runs: the reason, and patterns.
DESCRIPTIONS = {
    "a tool's name or version, which the kernel's manifest tells": (
        r"(CC|RUSTC|BINDGEN)_VERSION_TEXT",
        r"(GCC|CLANG|AS|LD|LLD|PAHOLE|RUSTC|RUSTC_LLVM)_VERSION",
        r"(CC|AS|LD)_IS_\w+",
    ),
    "what a tool can do": (r"(CC|AS|LD|GCC\d*|CLANG|PAHOLE|RUSTC)_(HAS|CAN|NO|SUPPORTS)_\w+", r"TOOLS_SUPPORT_\w+"),
    "what the source offers, which has no prompt": (
        r"(ARCH_)?(HAS|HAVE|WANTS?|SUPPORTS|USES?)_\w+",
        r"\w+_(HAS|HAVE)_\w+",
    ),
    "a name": (r"LOCALVERSION(_AUTO)?", r"BUILD_SALT", r"DEFAULT_HOSTNAME"),
    "how a file is packed": (
        r"(KERNEL|RD|DECOMPRESS|MODULE_COMPRESS)_(GZIP|BZIP2|LZMA|XZ|LZO|LZ4|ZSTD)",
        r"MODULE_COMPRESS(_NONE|_ALL)?",
    ),
    "a signer's key": (r"MODULE_SIG_KEY", r"SYSTEM_(TRUSTED|REVOCATION|BLACKLIST)_\w+"),
}
_DESCRIPTION = re.compile("|".join(pattern for patterns in DESCRIPTIONS.values() for pattern in patterns))


@dataclass(frozen=True, slots=True)
class Difference:
    """A symbol (without CONFIG_) and its values as the two texts spell them; None where a text does not name it."""

    symbol: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class ConfigDiff:
    """`changed` is what two kernels of one version could differ in, so a comparison must tell of it."""

    version_bound: tuple[Difference, ...]
    changed: tuple[Difference, ...]


def parse_config(text: str) -> Mapping[str, str]:
    """Values by symbol without CONFIG_, strings with their quotes; "is not set" is "n", and other lines say nothing."""
    found = (LINE.fullmatch(line) for line in text.splitlines())
    return {one["set"] or one["unset"]: one["value"].rstrip() if one["set"] else "n" for one in found if one}


def diff_configs(a: str, b: str) -> ConfigDiff:
    """Compare the texts of two configurations, symbols in alphabetical order.

    A symbol that only one text names is version-bound: it is new, gone, or hidden by a symbol that is told as changed.
    """
    left, right = parse_config(a), parse_config(b)
    symbols = sorted(symbol for symbol in left.keys() | right.keys() if left.get(symbol) != right.get(symbol))
    differences = [Difference(symbol, left.get(symbol), right.get(symbol)) for symbol in symbols]
    return ConfigDiff(
        version_bound=tuple(one for one in differences if _is_version_bound(one)),
        changed=tuple(one for one in differences if not _is_version_bound(one)),
    )


def _is_version_bound(one: Difference) -> bool:
    """A switch in one text and a number or a string in the other is a symbol whose type a version changed."""
    if one.a is None or one.b is None:
        return True
    return (one.a in SWITCH) != (one.b in SWITCH) or _DESCRIPTION.fullmatch(one.symbol) is not None

# SPDX-License-Identifier: GPL-2.0-or-later
"""Fragments of a kernel configuration: what they ask of Kconfig, and what of it Kconfig took away.

A fragment is a .config file whose paragraphs are groups: a comment with the reason, then symbols. All symbols of a
group must come out as they stand, unless a line `#: wanted` (may be lost) or `#: required from 5.18 before 6.4` (must
come out in these versions) says otherwise. The value `default`, for symbols or globs of symbols, leaves them to the
kernel's own default where the base would have set them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

Version = tuple[int, ...]

ASKED = re.compile(r"CONFIG_(?P<set>[\w*]+)=(?P<value>.+)|# CONFIG_(?P<unset>\w+) is not set")
DIRECTIVE = re.compile(r"#: (wanted|required(?: from (?P<since>\S+))?(?: before (?P<before>\S+))?)")
VALUE = re.compile(r'default|[ymn]|-?\d+|0[xX][\da-fA-F]+|"[^"]*"')
EVER: Version = (1 << 31,)


class FragmentError(Exception):
    """The message names the fragment and its line."""


@dataclass(frozen=True)
class Rule:
    """A symbol (without CONFIG_), its value ("n": not set), and the versions in which it must have that."""

    symbol: str
    value: str
    fragment: str
    reason: str
    since: Version
    before: Version

    def is_required(self, version: Version) -> bool:
        return self.value != "default" and self.since <= version < self.before


def parse_version(text: str) -> Version:
    """Comparable numbers of a kernel's or a tool's version; 5.17-rc6 is before 5.17."""
    return _parse_numbers(text, final=1)


def parse_bound(text: str) -> Version:
    """As parse_version(), of the first that is called so: 5.17 is from its first -rc on."""
    return _parse_numbers(text, final=0)


def _parse_numbers(text: str, *, final: int) -> Version:
    found = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-rc(\d+))?", text)
    if found is None:
        raise FragmentError(f"'{text}' is no version")
    major, minor, patch, candidate = (int(number or 0) for number in found.groups())
    return major, minor, patch, 0 if candidate else final, candidate


def parse_fragment(name: str, text: str) -> list[Rule]:
    paragraphs = re.finditer(r"(?:^.*\S.*\n?)+", text, re.MULTILINE)
    return [rule for one in paragraphs for rule in _parse_group(name, text.count("\n", 0, one.start()), one[0])]


def _parse_group(name: str, line: int, text: str) -> Iterator[Rule]:
    """Text below `line` lines of the fragment."""
    reason: list[str] = []
    since: Version = (0,)
    before: Version = EVER
    for number, words in enumerate(text.splitlines(), line + 1):
        if asked := ASKED.fullmatch(words.rstrip()):
            symbol, value = asked["set"] or asked["unset"], asked["value"] or "n"
            if not VALUE.fullmatch(value) or ("*" in symbol and value != "default"):
                raise FragmentError(f"{name}:{number}: '{words}' has no value that a symbol can have")
            yield Rule(symbol, value, name, " ".join(reason), since, before)
        elif found := DIRECTIVE.fullmatch(words.rstrip()):
            since = parse_bound(found["since"] or "0")
            before = (0,) if found[1] == "wanted" else parse_bound(found["before"]) if found["before"] else EVER
        elif words.startswith("#") and not words.startswith("#:"):
            reason.append(words.lstrip("# "))
        else:
            raise FragmentError(f"{name}:{number}: '{words}' is no line of a kernel configuration")


def merge_rules(fragments: Iterable[Sequence[Rule]]) -> list[Rule]:
    """Of rules for one symbol the last counts; globs stay."""
    return list({rule.symbol: rule for rules in fragments for rule in rules}.values())


def format_asked(rules: Iterable[Rule]) -> str:
    """What Kconfig is to read."""
    return "".join(_format_rule(rule) for rule in rules if rule.value != "default")


def _format_rule(rule: Rule) -> str:
    return f"# CONFIG_{rule.symbol} is not set\n" if rule.value == "n" else f"CONFIG_{rule.symbol}={rule.value}\n"


def drop_defaulted(config: str, rules: Sequence[Rule]) -> str:
    """A configuration without the lines of symbols that are left to their default, though not of those asked for."""
    patterns = [rule.symbol for rule in rules if rule.value == "default"]
    asked = {rule.symbol for rule in rules if rule.value != "default"}
    kept = [line for line in config.splitlines(keepends=True) if not _is_defaulted(line, patterns, asked)]
    return "".join(kept)


def _is_defaulted(line: str, patterns: Sequence[str], asked: set[str]) -> bool:
    found = ASKED.fullmatch(line.rstrip())
    if found is None:
        return False
    symbol = str(found["set"] or found["unset"])
    return symbol not in asked and any(fnmatchcase(symbol, pattern) for pattern in patterns)


def read_values(config: str) -> dict[str, str]:
    found = (ASKED.fullmatch(line.rstrip()) for line in config.splitlines())
    return {one["set"] or one["unset"]: one["value"] or "n" for one in found if one}


def find_lost(rules: Iterable[Rule], values: Mapping[str, str], version: Version) -> list[tuple[Rule, str]]:
    """The rules that must hold and do not, with the value there is; a symbol that is not named is off, or empty."""
    lost = []
    for rule in rules:
        absent = '""' if rule.value.startswith('"') else "n"
        value = values.get(rule.symbol, absent)
        if rule.is_required(version) and value != rule.value:
            lost.append((rule, value))
    return lost

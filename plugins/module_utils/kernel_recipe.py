# SPDX-License-Identifier: GPL-2.0-or-later
"""Recipes: what kernels of some versions need from today's compilers, as the table of recipes says."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_fragment import (
    Rule,
    Version,
    parse_fragment,
    parse_version,
)

TOOLS = ("gcc", "pahole", "ld")


class RecipeError(Exception):
    """The message names the recipe."""


@dataclass(frozen=True)
class Recipe:
    """`ranges` of kernel versions, any of which will do, and a range for each tool that it depends on."""

    name: str
    reason: str
    evidence: str
    ranges: tuple[tuple[Version, Version | None], ...]
    tools: Mapping[str, tuple[Version, Version | None]]
    variables: Mapping[str, str] = field(default_factory=dict)  # words appended to make's
    config: str = ""  # a fragment

    def matches(self, kernel: Version, tools: Mapping[str, Version]) -> bool:
        return any(_is_within(kernel, one) for one in self.ranges) and all(
            name in tools and _is_within(tools[name], one) for name, one in self.tools.items()
        )


def parse_recipes(text: str) -> list[Recipe]:
    return [_parse_recipe(table) for table in tomllib.loads(text)["recipe"]]


def _parse_recipe(table: Mapping[str, object]) -> Recipe:
    known = {"name", "reason", "evidence", "kernels", "variables", "config", *TOOLS}
    if unknown := table.keys() - known:
        raise RecipeError(f"recipe {table.get('name')}: unknown {', '.join(sorted(unknown))}")
    ranges = table["kernels"]
    assert isinstance(ranges, list)
    return Recipe(
        name=str(table["name"]),
        reason=str(table["reason"]),
        evidence=str(table["evidence"]),
        ranges=tuple(_parse_range(str(one)) for one in ranges),
        tools={name: _parse_range(str(table[name])) for name in TOOLS if name in table},
        variables=dict(table.get("variables", {})),  # type: ignore[call-overload]
        config=str(table.get("config", "")),
    )


def _parse_range(text: str) -> tuple[Version, Version | None]:
    """ "5.10..5.15.50" is from 5.10 and before 5.15.50; either end may be left open."""
    since, dots, before = text.partition("..")
    if not dots:
        raise RecipeError(f"'{text}' is no range: write FROM..BEFORE")
    return parse_version(since or "0"), parse_version(before) if before else None


def _is_within(version: Version, one: tuple[Version, Version | None]) -> bool:
    since, before = one
    return since <= version and (before is None or version < before)


def find_recipes(recipes: Iterable[Recipe], kernel: Version, tools: Mapping[str, Version]) -> list[Recipe]:
    return [one for one in recipes if one.matches(kernel, tools)]


def add_variables(variables: Mapping[str, str], recipes: Sequence[Recipe]) -> dict[str, str]:
    """A recipe appends to a variable that is there."""
    result = dict(variables)
    for recipe in recipes:
        for name, value in recipe.variables.items():
            result[name] = f"{result.get(name, '')} {value}".strip()
    return result


def list_rules(recipes: Iterable[Recipe]) -> list[list[Rule]]:
    return [parse_fragment(f"recipe {one.name}", one.config) for one in recipes]

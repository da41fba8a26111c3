# SPDX-License-Identifier: GPL-2.0-or-later
"""Recipes: what kernels of some versions need from today's compilers, as the table of recipes says."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_fragment import (
    EVER,
    Rule,
    Version,
    parse_bound,
    parse_fragment,
)

TOOLS = ("gcc", "clang", "ld", "pahole")

Range = tuple[Version, Version]


class RecipeError(Exception):
    """The message names the recipe."""


@dataclass(frozen=True)
class Recipe:
    """Any of the ranges of kernels will do, and all tools that are named must be within theirs."""

    name: str
    reason: str
    commits: tuple[str, ...]
    kernels: tuple[Range, ...]
    tools: Mapping[str, Range]
    variables: Mapping[str, str]
    config: str

    def matches(self, kernel: Version, tools: Mapping[str, Version]) -> bool:
        tools_match = all(name in tools and _is_within(tools[name], one) for name, one in self.tools.items())
        return tools_match and any(_is_within(kernel, one) for one in self.kernels)


def parse_recipes(text: str) -> list[Recipe]:
    return [_parse_recipe(table) for table in tomllib.loads(text).get("recipe", [])]


def _parse_recipe(table: Mapping[str, Any]) -> Recipe:
    name = table.get("name", "without a name")
    known = {"name", "reason", "commits", "proven", "kernels", "variables", "config", *TOOLS}
    if unknown := table.keys() - known:
        raise RecipeError(f"recipe {name}: unknown {', '.join(sorted(unknown))}")
    if missing := {"name", "reason", "commits", "kernels"} - table.keys():
        raise RecipeError(f"recipe {name}: no {', '.join(sorted(missing))}")
    return Recipe(
        name=name,
        reason=table["reason"],
        commits=tuple(table["commits"]),
        kernels=tuple(_parse_range(name, one) for one in table["kernels"]),
        tools={tool: _parse_range(name, table[tool]) for tool in TOOLS if tool in table},
        variables=table.get("variables", {}),
        config=table.get("config", ""),
    )


def _parse_range(name: str, text: str) -> Range:
    since, dots, before = text.partition("..")
    if not dots:
        raise RecipeError(f"recipe {name}: '{text}' is no range: write FROM..BEFORE")
    return parse_bound(since) if since else (0,), parse_bound(before) if before else EVER


def _is_within(version: Version, one: Range) -> bool:
    since, before = one
    return bool(since <= version < before)


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

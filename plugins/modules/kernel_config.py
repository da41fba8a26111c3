#!/usr/bin/python
# SPDX-License-Identifier: GPL-2.0-or-later
"""Ansible module: the configuration of a kernel, made of a base and fragments, and checked."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_config
short_description: Make the configuration of a kernel from a base and fragments
description:
  - Lays fragments over a base, lets the kernel's own Kconfig complete it, and checks that what the fragments require
    came out of it. A symbol that was lost is named with its value and the reason why it was asked for.
  - Picks the recipes that this kernel needs from this compiler, and lays their configuration over the rest.
  - The source is only read; the result is a file in the cache, named after its content.
version_added: 0.2.0
author:
  - xdprepro developers (@xdprepro)
options:
  tree:
    description: The kernel's source.
    type: path
    required: true
  cache:
    description: The cache.
    type: path
    required: true
  base:
    description: Text of a whole configuration; empty means that all is off that no fragment names.
    type: str
    default: ''
  fragments:
    description: Texts of fragments by what messages call them, in their order, of which the last wins.
    type: dict
    required: true
  recipes:
    description: Text of the table of recipes.
    type: str
    required: true
  cc:
    description: The compiler.
    type: str
    default: gcc
extends_documentation_fragment:
  - xdprepro.lab.kernel_work
attributes:
  check_mode:
    description: Makes the configuration in check mode too, as everything else depends on it; without the source it
      only says that it would.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
"""

EXAMPLES = r"""
- name: Make the configuration
  xdprepro.lab.kernel_config:
    tree: /usr/src/linux
    cache: /var/tmp/kernels
    fragments:
      tiny: "{{ lookup('ansible.builtin.file', 'tiny.config') }}"
    recipes: "{{ lookup('ansible.builtin.file', 'recipes.toml') }}"
  register: kernel_config
"""

RETURN = r"""
config:
  description: The configuration.
  type: str
  returned: success
asked:
  description: What tells its base and fragments from others, the same for all versions of a kernel.
  type: str
  returned: success
release:
  description: What C(uname -r) will say.
  type: str
  returned: success
variables:
  description: Variables of make that belong to it, with C({tree}) and C({output}) not filled in.
  type: dict
  returned: success
recipes:
  description: Names of the recipes that were applied.
  type: list
  elements: str
  returned: success
tools:
  description: By tool, what it says of its version.
  type: dict
  returned: success
"""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.xdprepro.lab.plugins.module_utils import (
    kbuild,
    kernel_cache,
    kernel_fragment,
    kernel_recipe,
    source_tree,
)
from ansible_collections.xdprepro.lab.plugins.module_utils.kbuild import Tree
from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_cache import KernelFailure
from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_fragment import Rule, Version
from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_recipe import Recipe

State = dict[str, Any]


def work(params: State, check_mode: bool) -> State:
    if check_mode and not source_tree.is_there(params["tree"]):
        return {"changed": True, "config": "", "asked": "", "release": "", "variables": {}, "recipes": [], "tools": {}}
    try:
        with source_tree.start_reading(Path(params["tree"]), Path(params["cache"])):
            return make(params)
    except (kernel_fragment.FragmentError, kernel_recipe.RecipeError) as error:
        raise KernelFailure("bad_config", str(error)) from None


def make(params: State) -> State:
    path, cache = Path(params["tree"]), Path(params["cache"])
    kbuild.check_tree(path)
    kernel_cache.tell(params["progress"], f"configuring {path.name}")
    place = cache / "builds" / f"config-{short_hash(str(path))}"
    with kernel_cache.start_lock(place.with_name(f"{place.name}.lock")):
        tree = Tree(path, place, params["cc"], kbuild.VARIABLES)
        tools = kbuild.read_tools(tree.cc)
        version = kernel_fragment.parse_version(kbuild.read_make(tree, "kernelversion"))
        recipes = find_recipes(params["recipes"], version, tools)
        tree = Tree(path, place, params["cc"], kernel_recipe.add_variables(kbuild.VARIABLES, recipes))
        fragments = [kernel_fragment.parse_fragment(name, text) for name, text in params["fragments"].items()]
        rules = kernel_fragment.merge_rules([*fragments, *kernel_recipe.list_rules(recipes)])
        text = complete(tree, params["base"], rules)
        check(rules, text, version)
        release = kbuild.read_make(tree, "kernelrelease")
    return {
        "changed": False,
        "config": str(store(cache, text)),
        "asked": short_hash(params["base"] + "".join(map(kernel_fragment.format_asked, fragments))),
        "release": release,
        "variables": tree.variables,
        "recipes": [recipe.name for recipe in recipes],
        "tools": tools | ({"pahole": kbuild.read_pahole()} if "CONFIG_DEBUG_INFO_BTF=y\n" in text else {}),
    }


def find_recipes(text: str, version: Version, tools: dict[str, str]) -> list[Recipe]:
    known = tools | ({"pahole": kbuild.read_pahole()} if shutil.which("pahole") else {})
    versions = {name: kernel_fragment.parse_version(number) for name, number in kbuild.find_versions(known).items()}
    found: list[Recipe] = kernel_recipe.find_recipes(kernel_recipe.parse_recipes(text), version, versions)
    return found


def complete(tree: Tree, base: str, rules: Sequence[Rule]) -> str:
    """What Kconfig makes of the base with the rules laid over it."""
    config, asked, log = (tree.output / name for name in (".config", "asked.config", "config.log"))
    tree.output.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    asked.write_text(kernel_fragment.format_asked(rules))
    if base:
        config.write_text(base + asked.read_text())
    else:
        kbuild.run_make(tree, [f"KCONFIG_ALLCONFIG={asked}", "allnoconfig"], log=log)
    config.write_text(kernel_fragment.drop_defaulted(config.read_text(), rules))
    kbuild.run_make(tree, ["olddefconfig"], log=log)
    text: str = config.read_text()
    return text


def check(rules: Sequence[Rule], text: str, version: Version) -> None:
    lost = kernel_fragment.find_lost(rules, kernel_fragment.read_values(text), version)
    if lost:
        raise KernelFailure(
            "config_lost",
            "; ".join(f"CONFIG_{rule.symbol} is {value}, {describe(rule)}" for rule, value in lost),
            hint="ask for what it depends on, or say '#: wanted' in its group",
        )


def describe(rule: Rule) -> str:
    reason = f" ({rule.reason})" if rule.reason else ""
    return f"and {rule.fragment} requires {rule.value}{reason}"


def store(cache: Path, text: str) -> Path:
    path = cache / "configs" / f"{short_hash(text)}.config"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(text)
        new.replace(path)
    return path


def short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "tree": {"type": "path", "required": True},
            "cache": {"type": "path", "required": True},
            "base": {"type": "str", "default": ""},
            "fragments": {"type": "dict", "required": True},
            "recipes": {"type": "str", "required": True},
            "cc": {"type": "str", "default": "gcc"},
            "progress": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    kernel_cache.run_module(module, work)


if __name__ == "__main__":
    main()

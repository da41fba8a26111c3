# SPDX-License-Identifier: GPL-2.0-or-later
"""Fragments, recipes and logs of kernel builds: what is read, what is chosen, and what is named when it is lost."""

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.xdprepro.lab.plugins.module_utils import kbuild, kernel_fragment, kernel_recipe
from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_cache import KernelFailure
from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_fragment import FragmentError, parse_version
from ansible_collections.xdprepro.lab.plugins.modules import kernel_config, kernel_make
from conftest import ROOT
from debian_mirror import make_tree

CONFIGS = ROOT / "xdprepro/configs"
RECIPES = ROOT / "xdprepro/recipes.toml"

FRAGMENT = """\
# Written by hand.

# The path under test,
# with the list of its sockets.
CONFIG_XDP_SOCKETS=y
# CONFIG_SLOB is not set

# Only old kernels have it.
#: required from 5.10 before 6.4
CONFIG_SLAB=y

# Nice to have.
#: wanted
CONFIG_HZ=250
CONFIG_NAME="a b"

# As the kernel likes.
CONFIG_MITIGATION_*=default
"""


def lost_in(version: str, config: str) -> list[str]:
    rules = kernel_fragment.parse_fragment("f", FRAGMENT)
    values = kernel_fragment.read_values(config)
    found = kernel_fragment.find_lost(rules, values, parse_version(version))
    return [f"{rule.symbol} {rule.value} {value}" for rule, value in found]


def test_a_fragment_asks_for_its_symbols_with_the_reason_of_their_group() -> None:
    rules = {rule.symbol: rule for rule in kernel_fragment.parse_fragment("f", FRAGMENT)}
    assert [(one.symbol, one.value) for one in rules.values()] == [
        ("XDP_SOCKETS", "y"),
        ("SLOB", "n"),
        ("SLAB", "y"),
        ("HZ", "250"),
        ("NAME", '"a b"'),
        ("MITIGATION_*", "default"),
    ]
    assert rules["SLOB"].reason == "The path under test, with the list of its sockets."
    assert rules["SLAB"].reason == "Only old kernels have it."


@pytest.mark.parametrize(
    ("version", "config", "lost"),
    [
        ("6.1.176", "CONFIG_XDP_SOCKETS=y\nCONFIG_SLAB=y\n", []),
        ("6.1.176", "CONFIG_XDP_SOCKETS=m\nCONFIG_SLAB=y\n", ["XDP_SOCKETS y m"]),
        ("6.1.176", "CONFIG_SLAB=y\n", ["XDP_SOCKETS y n"]),
        ("6.1.176", "CONFIG_XDP_SOCKETS=y\nCONFIG_SLOB=y\n# CONFIG_SLAB is not set\n", ["SLOB n y", "SLAB y n"]),
        ("5.9", "CONFIG_XDP_SOCKETS=y\n", []),
        ("5.10-rc1", "CONFIG_XDP_SOCKETS=y\n", ["SLAB y n"]),
        ("6.3.13", "CONFIG_XDP_SOCKETS=y\n", ["SLAB y n"]),
        ("6.4.0-rc1", "CONFIG_XDP_SOCKETS=y\n", []),
    ],
)
def test_a_lost_symbol_is_found_in_the_versions_that_must_have_it(version: str, config: str, lost: list[str]) -> None:
    assert lost_in(version, config) == lost


def test_an_empty_string_is_as_good_as_none() -> None:
    rules = kernel_fragment.parse_fragment("f", 'CONFIG_LOCALVERSION=""\n')
    assert kernel_fragment.find_lost(rules, {}, (6, 1)) == []
    assert kernel_fragment.find_lost(rules, {"LOCALVERSION": '"-x"'}, (6, 1))


@pytest.mark.parametrize(
    "line",
    ["CONFIG_A=yes", "CONFIG_A", "CONFIG_A*=y", "#: requires", "#: required from", "config A", "CONFIG_A=y # why"],
)
def test_a_line_that_is_none_of_a_fragment_is_named(line: str) -> None:
    with pytest.raises(FragmentError, match=r"mine:3: "):
        kernel_fragment.parse_fragment("mine", f"# Reason.\nCONFIG_B=y\n{line}\n")


def test_of_two_fragments_the_last_wins() -> None:
    one, other = (kernel_fragment.parse_fragment(name, f"CONFIG_A={name}\n") for name in ("y", "n"))
    assert [rule.value for rule in kernel_fragment.merge_rules([one, other])] == ["n"]


def test_what_is_left_to_its_default_is_not_said_to_kconfig() -> None:
    rules = kernel_fragment.parse_fragment("f", FRAGMENT + "CONFIG_MITIGATION_SLS=y\n")
    config = "# CONFIG_MITIGATION_ITS is not set\nCONFIG_MITIGATION_SLS=y\n# CONFIG_ITS is not set\n"
    assert kernel_fragment.drop_defaulted(config, rules) == "CONFIG_MITIGATION_SLS=y\n# CONFIG_ITS is not set\n"
    assert "default" not in kernel_fragment.format_asked(rules)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.config")), ids=lambda path: path.name)
def test_each_group_of_our_fragments_has_its_reason(path: Path) -> None:
    rules = kernel_fragment.parse_fragment(path.name, path.read_text())
    assert rules
    assert [rule.symbol for rule in rules if len(rule.reason.split()) < 4] == []
    symbols = [rule.symbol for rule in rules]
    assert sorted(symbols) == sorted(set(symbols))


@pytest.mark.parametrize(
    ("kernel", "tools", "names"),
    [
        # Debian 12: gcc 12, binutils 2.40, pahole 1.24.
        ("5.10.0", "12.2.0 2.40 1.24", "libsubcmd-realloc objtool-no-symbols dangling-pointer btf-enum64"),
        ("5.10.262", "12.2.0 2.40 1.24", ""),
        ("5.15.0", "12.2.0 2.40 1.24", "libsubcmd-realloc no-werror dangling-pointer btf-enum64"),
        ("5.15.24", "12.2.0 2.40 1.24", "libsubcmd-realloc no-werror dangling-pointer btf-enum64"),
        ("5.15.25", "12.2.0 2.40 1.24", "no-werror dangling-pointer btf-enum64"),
        ("5.15.65", "12.2.0 2.40 1.24", "no-werror btf-enum64"),
        ("5.15.66", "12.2.0 2.40 1.24", "no-werror"),
        ("5.16.10", "12.2.0 2.40 1.24", "libsubcmd-realloc no-werror dangling-pointer btf-enum64"),
        ("5.16.11", "12.2.0 2.40 1.24", "no-werror dangling-pointer btf-enum64"),
        ("5.17.0-rc5", "12.2.0 2.40 1.24", "libsubcmd-realloc no-werror dangling-pointer btf-enum64"),
        ("5.17.0-rc6", "12.2.0 2.40 1.24", "no-werror dangling-pointer btf-enum64"),
        ("5.17.0", "12.2.0 2.40 1.24", "no-werror dangling-pointer btf-enum64"),
        ("5.19.0-rc1", "12.2.0 2.40 1.24", "no-werror dangling-pointer btf-enum64"),
        ("5.19.0", "12.2.0 2.40 1.24", "no-werror btf-enum64"),
        ("5.19.17", "12.2.0 2.40 1.24", "no-werror"),
        ("6.1.176", "12.2.0 2.40 1.24", "no-werror"),
        # Debian 13 has gcc 14, binutils 2.44 and pahole 1.30; Debian 11 has 10, 2.35 and 1.20.
        ("5.15.0", "14.2.0 2.44 1.30", "libsubcmd-realloc no-werror dangling-pointer btf-enum64"),
        ("5.10.0", "10.2.1 2.35.2 1.20", ""),
        ("5.15.0", "10.2.1 2.35.2 1.20", "no-werror"),
    ],
)
def test_the_table_gives_a_kernel_what_it_needs_from_these_tools(kernel: str, tools: str, names: str) -> None:
    versions = dict(zip(("gcc", "ld", "pahole"), map(parse_version, tools.split()), strict=True))
    recipes = kernel_recipe.parse_recipes(RECIPES.read_text())
    found = kernel_recipe.find_recipes(recipes, parse_version(kernel), versions)
    assert " ".join(one.name for one in found) == names


def test_each_recipe_names_its_reason_and_a_commit() -> None:
    for recipe in kernel_recipe.parse_recipes(RECIPES.read_text()):
        assert len(recipe.reason.split()) > 10
        assert recipe.commits
        assert recipe.variables or recipe.config
        kernel_fragment.parse_fragment(recipe.name, recipe.config)


def test_a_recipe_appends_to_the_variables_of_all_builds() -> None:
    [recipe] = [one for one in kernel_recipe.parse_recipes(RECIPES.read_text()) if one.name == "dangling-pointer"]
    variables = kernel_recipe.add_variables(kbuild.VARIABLES, [recipe])
    assert variables["KCFLAGS"] == f"{kbuild.VARIABLES['KCFLAGS']} -Wno-dangling-pointer"
    assert {name for name in variables if variables[name] != kbuild.VARIABLES[name]} == {"KCFLAGS"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('kernels = ["5.10"]', "'5.10' is no range"),
        ("gc = '12..'\nkernels = []", "unknown gc"),
        ("", "no kernels"),
    ],
)
def test_a_wrong_recipe_is_named(line: str, problem: str) -> None:
    with pytest.raises(kernel_recipe.RecipeError, match=f"recipe mine: {problem}"):
        kernel_recipe.parse_recipes(f'[[recipe]]\nname = "mine"\nreason = "r"\ncommits = []\n{line}\n')


def test_versions_are_those_of_the_tools_and_not_of_their_packages() -> None:
    tools = {
        "cc": "gcc (Debian 12.2.0-14+deb12u1) 12.2.0",
        "ld": "GNU ld version 2.41-37.fc40",
        "as": "GNU assembler (GNU Binutils for Debian) 2.40",
        "pahole": "v1.24",
    }
    assert kbuild.find_versions(tools) == {"gcc": "12.2.0", "ld": "2.41", "as": "2.40", "pahole": "1.24"}
    assert kbuild.find_versions({"cc": "Debian clang version 14.0.6"}) == {"clang": "14.0.6"}


LOGS = {
    # gcc's first error wins over what follows from it.
    "init/main.c:12:3: error: unknown type name 'foo'": """\
  CC      init/main.o
/src/linux/kernel/fork.c: In function 'x':
/src/linux/init/main.c:12:3: error: unknown type name 'foo'
/src/linux/init/main.c:13:3: error: expected ';'
make[3]: *** [/src/linux/scripts/Makefile.build:250: init/main.o] Error 1
make[1]: *** [/src/linux/Makefile:2013: .] Error 2
""",
    "ld: net/core/dev.o:(.text+0x10): undefined reference to `foo'": """\
  LD      .tmp_vmlinux.kallsyms1
ld: net/core/dev.o:(.text+0x10): undefined reference to `foo'
make[1]: *** [scripts/Makefile.vmlinux:34: vmlinux] Error 1
""",
    "*** The source tree is not clean, please run 'make mrproper'": """\
***
*** The source tree is not clean, please run 'make mrproper'
*** in /src/linux
***
make[1]: *** [/src/linux/Makefile:574: outputmakefile] Error 1
""",
    "arch/x86/entry/thunk_64.o: warning: objtool: missing symbol table": """\
  AS      arch/x86/entry/thunk_64.o
arch/x86/entry/thunk_64.o: warning: objtool: missing symbol table
make[3]: *** [/src/linux/scripts/Makefile.build:360: arch/x86/entry/thunk_64.o] Error 1
""",
    "make: *** No rule to make target 'bzImage'.  Stop.": "make: *** No rule to make target 'bzImage'.  Stop.\n",
    "make failed and said nothing": "",
}


@pytest.mark.parametrize("error", LOGS)
def test_the_first_error_of_a_log_is_named_as_seen_from_the_source(error: str) -> None:
    tree = kbuild.Tree(Path("/src/linux"), Path("/out"), "gcc", {})
    assert kbuild.find_first_error(LOGS[error], tree) == error


@pytest.mark.parametrize("text", ["/tmp/x.s: No space left on device", "cp: Disk quota exceeded"])
def test_a_full_disk_is_no_failure_of_the_source(tmp_path: Path, text: str) -> None:
    tree = kbuild.Tree(Path("/src/linux"), tmp_path, "gcc", {})
    error = "init/main.c:1:1: error: x\n"
    assert kbuild.build_failure(error + text, tree).reason == "no_space"
    assert kbuild.build_failure(error, tree).reason == "build_failed"


# What is read is kept


ASKING = """\
%:
\t@flock --nonblock ../linux.lock true && echo "error: nobody reads" >&2 || echo "error: somebody reads" >&2; false
"""


@pytest.mark.parametrize("module", [kernel_config, kernel_make])
def test_a_source_is_locked_while_make_reads_it(tmp_path: Path, module: Any) -> None:
    """make itself is asked."""
    make_tree(tmp_path / "sources/linux")
    (tmp_path / "sources/linux/Makefile").write_text(ASKING)
    (tmp_path / "config").write_text("CONFIG_64BIT=y\n")
    made = {"config": str(tmp_path / "config"), "asked": "", "release": "6.1", "variables": {}, "tools": {}}
    params: dict[str, Any] = {
        "tree": str(tmp_path / "sources/linux"),
        "cache": str(tmp_path),
        "base": "",
        "fragments": {},
    }
    params |= {"recipes": "", "cc": "gcc", "progress": "", "jobs": 1, "source_id": "x", "spec": "git:x@x"}
    with pytest.raises(KernelFailure) as caught:
        module.work(params | ({"config": made} if module is kernel_make else {}), False)
    assert (caught.value.reason, str(caught.value)) == ("build_failed", "error: somebody reads")

# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels built from source: the same bytes each time, once for each key, and a reason where there is none.

The kernel here is the least that Kconfig allows, so that it builds in a minute; its source is that of the distribution.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.xdprepro.lab.plugins.module_utils import kernel_cache
from ansible_collections.xdprepro.lab.plugins.modules import kernel_config
from conftest import ROOT, need

from xdprepro import cmd
from xdprepro.kconfig import diff_configs
from xdprepro.kernel import cache_directory, read_kernel
from xdprepro.kernels import fetch_source, find_kernel

SOURCE = "linux-source-6.1"
CHANGED = Path("init/main.c")
LEAST = """\
# A 64-bit kernel that prints, with a module apart from the image.
CONFIG_64BIT=y
CONFIG_PRINTK=y
CONFIG_EXPERT=y
CONFIG_CC_OPTIMIZE_FOR_PERFORMANCE=y
CONFIG_SLUB=y
CONFIG_MODULES=y
CONFIG_CRC7=m
"""
PLAY = """\
- hosts: localhost
  gather_facts: false
  tasks:
    - block:
        - ansible.builtin.include_role:
            name: xdprepro.lab.kernel_build
        - ansible.builtin.copy:
            content: "{{ __kernel_build_made | to_json }}"
            dest: "{{ test_result }}"
            mode: "0644"
      rescue:
        - ansible.builtin.copy:
            content: "{{ ansible_failed_result | to_json }}"
            dest: "{{ test_result }}"
            mode: "0644"
"""


def start_play(directory: Path, variables: dict[str, Any], under: tuple[str, ...]) -> Any:
    """Plain Ansible, without our package; the answer or the failure comes in the file `result`."""
    playbook = directory / "play.yml"
    playbook.write_text(PLAY)
    extra = {**variables, "test_result": str(directory / "result"), "ansible_python_interpreter": sys.executable}
    program = Path(sys.executable).parent / "ansible-playbook"
    # An interrupted test leaves no compiler behind.
    guard = ["setpriv", "--pdeathsig", "TERM"]
    argv: list[str | Path] = [*under, *guard, program, "-i", "localhost,", "-c", "local", playbook]
    env = os.environ | {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    argv += ["-e", json.dumps(extra)]
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def end_play(play: Any, directory: Path) -> dict[str, Any]:
    output = play.communicate()[0]
    assert (directory / "result").exists(), output
    result: dict[str, Any] = json.loads((directory / "result").read_text())
    return result


@dataclass(frozen=True)
class Builder:
    """What a build needs, and where its plays are kept."""

    directory: Path
    tree: Path
    cache: Path
    source_id: str = "first"
    fragment: str = LEAST
    base: str = ""
    under: tuple[str, ...] = ()

    def start(self, name: str) -> Any:
        fragment = self.directory / name / "least.config"
        fragment.parent.mkdir()
        fragment.write_text(self.fragment)
        variables = {
            "kernel_build_tree": str(self.tree),
            "kernel_build_source_id": self.source_id,
            "kernel_build_spec": f"deb-src:{SOURCE}",
            "kernel_build_cache": str(self.cache),
            "kernel_build_config_base": self.base,
            "kernel_build_config_fragments": [str(fragment)],
        }
        return start_play(fragment.parent, variables, self.under)

    def build(self, name: str) -> dict[str, Any]:
        """The answer of the last task, or the failure."""
        return end_play(self.start(name), self.directory / name)


@pytest.fixture(scope="session")
def source() -> Path:
    """The distribution's source of a kernel, fetched once."""
    need(shutil.which("flex") is not None, "no tools to build a kernel: run 'make setup'")
    return fetch_source(f"deb-src:{SOURCE}").tree


def link_tree(source: Path, tree: Path) -> Path:
    """A source of our own: its files lead to the other's, but for the one that tests change."""
    if not tree.exists():
        new = tree.with_name(f"{tree.name}.new")
        cmd.run(["rm", "-rf", new])
        cmd.run(["cp", "--archive", "--symbolic-link", source, new])
        (new / CHANGED).unlink()
        new.rename(tree)
    (tree / CHANGED).write_text((source / CHANGED).read_text())
    return tree


def edit(tree: Path, old: str, new: str) -> None:
    """Change a line, so that its file looks older than all that was built: as out of an archive."""
    path = tree / CHANGED
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    os.utime(path, (1_000_000_000, 1_000_000_000))


@pytest.fixture(scope="module")
def builder(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    """Source and build directory are kept for the next run of the tests, the kernels are not."""
    kept = cache_directory() / "tests" / source.name
    kept.mkdir(parents=True, exist_ok=True)
    with kept.with_name(f"{kept.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(kept / "cache/kernels", ignore_errors=True)
        (kept / "cache").mkdir(exist_ok=True)
        yield Builder(tmp_path_factory.mktemp("builds"), link_tree(source, kept / "tree"), kept / "cache")


@pytest.fixture(scope="module")
def first(builder: Builder) -> dict[str, Any]:
    return builder.build("first")


def entry_of(builder: Builder, answer: dict[str, Any]) -> Path:
    assert "key" in answer, answer
    return builder.cache / "kernels" / str(answer["key"])


def files_of(entry: Path) -> dict[str, bytes]:
    """What is the kernel; logs and dates may differ."""
    paths = (path for path in sorted(entry.rglob("*")) if path.is_file() and path.suffix not in (".json", ".log"))
    return {str(path.relative_to(entry)): path.read_bytes() for path in paths}


def test_a_built_kernel_is_an_entry_of_the_cache(builder: Builder, first: dict[str, Any]) -> None:
    kernel = read_kernel(entry_of(builder, first))
    assert first["changed"]
    assert kernel.kind == "deb-src"
    assert kernel.release.startswith("6.1.")
    assert kernel.key.startswith(f"{kernel.release}-")
    assert kernel.build_id is not None and len(kernel.build_id) == 40
    assert kernel.compiler is not None and "gcc" in kernel.compiler
    assert kernel.log is not None and "CC      init/main.o" in kernel.log.read_text()
    assert kernel.config is not None and "CONFIG_CRC7=m\n" in kernel.config.read_text()
    assert kernel.modules is not None
    assert "kernel/lib/crc7.ko:" in (kernel.modules / "modules.dep").read_text()
    assert sorted(path.name for path in kernel.modules.rglob("*.ko")) == ["crc7.ko"]
    assert [path for path in kernel.modules.rglob("*") if path.is_symlink()] == []
    assert kernel.source["fragments"][0] == "reproducible"


def test_functions_start_at_multiples_of_a_cache_line(builder: Builder, first: dict[str, Any]) -> None:
    lines = (entry_of(builder, first) / "System.map").read_text().splitlines()
    addresses = {name: int(address, 16) for address, _, name in map(str.split, lines)}
    assert [name for name in ("kmem_cache_alloc", "kmem_cache_free", "vprintk") if addresses[name] % 64] == []


def test_no_path_of_this_machine_is_in_the_kernel(builder: Builder, first: dict[str, Any]) -> None:
    kernel = read_kernel(entry_of(builder, first))
    image = Path(kernel.source["build_directory"], "vmlinux").read_bytes()
    assert str(builder.tree).encode() not in image
    assert str(builder.cache).encode() not in image
    assert b"xdprepro@xdprepro" in image


def test_a_whole_configuration_gives_the_kernel_it_came_from_which_is_not_built_again(
    builder: Builder, first: dict[str, Any]
) -> None:
    config = entry_of(builder, first) / "config"
    answer = replace(builder, base=str(config), fragment="# Nothing more is asked for.\n").build("whole")
    assert answer["key"] == first["key"]
    assert not answer["changed"]


def test_a_line_that_comes_and_goes_gives_another_kernel_and_then_the_first_again(
    builder: Builder, first: dict[str, Any]
) -> None:
    kept = files_of(entry_of(builder, first))
    original, planted = "bool initcall_debug;", "bool initcall_debug = 1;"
    edit(builder.tree, original, planted)
    other = replace(builder, source_id="other").build("other")
    assert other["key"] != first["key"]
    assert files_of(entry_of(builder, other))["vmlinuz"] != kept["vmlinuz"]
    edit(builder.tree, planted, original)
    shutil.rmtree(entry_of(builder, first))
    back = builder.build("back")
    assert back["changed"]
    assert files_of(entry_of(builder, back)) == kept


def test_of_two_builds_of_one_key_one_waits_and_finds_it(builder: Builder, first: dict[str, Any]) -> None:
    twin = replace(builder, source_id="twins")
    plays = {name: twin.start(name) for name in ("one", "two")}
    answers = [end_play(play, builder.directory / name) for name, play in plays.items()]
    assert len({answer["key"] for answer in answers}) == 1
    assert sorted(answer["changed"] for answer in answers) == [False, True]


def test_a_source_that_changes_while_it_is_built_gives_no_kernel(builder: Builder, first: dict[str, Any]) -> None:
    moving = replace(builder, source_id="moving")
    log = Path(read_kernel(entry_of(builder, first)).source["build_directory"], "build.log")
    log.unlink()
    play = moving.start("moving")
    while not log.exists() or not log.read_text():
        assert play.poll() is None
        time.sleep(0.1)
    (builder.tree / CHANGED).touch()
    failure = end_play(play, builder.directory / "moving")
    assert failure["reason"] == "source_changed"
    assert failure["msg"].startswith(f"{CHANGED} changed")


def test_a_source_that_does_not_build_names_its_first_error_and_keeps_the_log(
    builder: Builder, first: dict[str, Any]
) -> None:
    edit(builder.tree, "bool initcall_debug;", "bool initcall_debug = no_such_thing;")
    try:
        failure = replace(builder, source_id="broken").build("broken")
    finally:
        edit(builder.tree, "bool initcall_debug = no_such_thing;", "bool initcall_debug;")
    assert failure["reason"] == "build_failed"
    assert failure["msg"].startswith("init/main.c:")
    assert "error: " in failure["msg"] and "no_such_thing" in failure["msg"]
    assert failure["msg"] in Path(failure["log"]).read_text().replace(f"{builder.tree}/", "")
    assert [path.name for path in (builder.cache / "kernels").iterdir() if not (path / "manifest.json").exists()] == []


def configure(builder: Builder, fragment: str, **change: Any) -> kernel_cache.KernelFailure:
    """The failure of the module, without Ansible."""
    params = {"tree": builder.tree, "cache": builder.cache, "cc": "gcc", "base": "", "progress": ""}
    texts = {"fragments": {"mine": fragment}, "recipes": (ROOT / "xdprepro/recipes.toml").read_text()}
    with pytest.raises(kernel_cache.KernelFailure) as caught:
        kernel_config.work(params | texts | change, False)
    return caught.value


def test_symbols_that_kconfig_drops_are_named_with_value_and_reason(builder: Builder) -> None:
    failure = configure(
        builder,
        f"""{LEAST}
# For sockets.
CONFIG_XDP_SOCKETS=y

# For old times' sake.
# CONFIG_X86_64 is not set
CONFIG_NO_SUCH_SYMBOL=250

# Not for this one.
#: required before 6.1
CONFIG_NO_SUCH_SYMBOL_EITHER=y
""",
    )
    assert failure.reason == "config_lost"
    assert str(failure).split("; ") == [
        "CONFIG_XDP_SOCKETS is n, and mine requires y (For sockets.)",
        "CONFIG_X86_64 is y, and mine requires n (For old times' sake.)",
        "CONFIG_NO_SUCH_SYMBOL is n, and mine requires 250 (For old times' sake.)",
    ]


@pytest.mark.parametrize(
    ("fragment", "change", "reason", "fact"),
    [
        ("# Reason.\nCONFIG_A=maybe\n", {}, "bad_config", "mine:2: 'CONFIG_A=maybe'"),
        (LEAST, {"recipes": "[[recipe]]\nname = 'r'"}, "bad_config", "recipe r: no commits, kernels, reason"),
        (LEAST, {"tree": "/usr"}, "no_source", "/usr: no source of a Linux kernel for x86"),
        (LEAST, {"cc": "gcc-2.95"}, "no_tool", "gcc-2.95: not found"),
    ],
)
def test_what_cannot_be_built_is_refused(
    builder: Builder, fragment: str, change: dict[str, Any], reason: str, fact: str
) -> None:
    failure = configure(builder, fragment, **change)
    assert failure.reason == reason
    assert fact in str(failure)


@pytest.mark.usefixtures("root_user")
def test_a_full_disk_is_told_apart_from_a_source_that_does_not_build(builder: Builder, tmp_path: Path) -> None:
    """A disk of two megabytes, which only the play sees."""
    mount = f'mount -t tmpfs -o size=2m none "{tmp_path}" && exec "$@"'
    under = ("unshare", "--mount", "sh", "-c", mount, "sh")
    failure = replace(builder, cache=tmp_path, under=under).build("full")
    assert failure["reason"] == "no_space"
    assert "XDPREPRO_CACHE" in failure["hint"]


@pytest.mark.slow
def test_the_same_kernel_comes_of_another_path_without_any_object_of_the_first(
    builder: Builder, first: dict[str, Any], source: Path, tmp_path: Path
) -> None:
    elsewhere = replace(builder, tree=link_tree(source, tmp_path / "a-longer-path"), cache=tmp_path / "cache")
    answer = elsewhere.build("elsewhere")
    assert answer["key"] == first["key"]
    assert files_of(entry_of(elsewhere, answer)) == files_of(entry_of(builder, first))


@pytest.mark.slow
@pytest.mark.parametrize("series", ["5.10", "6.1", "6.12"])
def test_the_micro_guests_kernel_is_built_of_every_series(series: str) -> None:
    kernel = find_kernel(f"deb-src:linux-source-{series}", config="tiny")
    assert kernel.release.startswith(f"{series}.")
    assert kernel.system_map is not None
    lines = (line.split() for line in kernel.system_map.read_text().splitlines())
    names = {name for _, _, name in lines}
    assert {"veth_poll", "igb_poll", "virtnet_poll", "xsk_generic_rcv", "xsk_diag_handler_dump"} <= names
    other = find_kernel(f"deb-src:{SOURCE}", config="tiny")
    assert kernel.config is not None and other.config is not None
    assert diff_configs(kernel.config.read_text(), other.config.read_text()).changed == ()

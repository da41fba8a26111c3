# SPDX-License-Identifier: GPL-2.0-or-later
"""Running the kernel's own make: always from the same environment, and with the first error found in its log."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_cache import POLL_S, KernelFailure

ALIGNMENT_BYTES = 64

# On make's command line, where they win over what a tree says. Paths are filled in for each build, so the key has none.
VARIABLES = {
    "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970",
    "KBUILD_BUILD_USER": "xdprepro",
    "KBUILD_BUILD_HOST": "xdprepro",
    "KBUILD_BUILD_VERSION": "1",
    "LOCALVERSION": "",  # set, though empty: a tree that differs from its tag gets no "+"
    "KCFLAGS": f"-ffile-prefix-map={{tree}}/= -ffile-prefix-map={{output}}/= -falign-functions={ALIGNMENT_BYTES}",
    "KAFLAGS": "-ffile-prefix-map={tree}/= -ffile-prefix-map={output}/=",
    "INSTALL_MOD_STRIP": "1",
}
# What the user's shell may hold that changes a kernel is not let in.
ENVIRONMENT = ("PATH", "HOME", "TMPDIR")

# Lines that name a cause, the most telling first.
ERRORS = (
    r"\S+:\d+(:\d+)?: (fatal )?error: .+",
    r".*: (undefined reference to|multiple definition of) .+",
    r"(ERROR|FAILED|error): .+",
    r"\*\*\* .+",
)
GIVEN_UP = re.compile(r"make(\[\d+\])?: \*\*\* .+")
FULL = re.compile(r"No space left on device|Disk quota exceeded")
ROOM_BYTES = 1 << 20


@dataclass(frozen=True)
class Tree:
    """A kernel source, the directory outside it that takes all that is made, and make's variables."""

    path: Path
    output: Path
    cc: str
    variables: Mapping[str, str]


def run_make(
    tree: Tree,
    targets: Sequence[str],
    *,
    log: Path,
    jobs: int = 1,
    environment: Mapping[str, str] | None = None,
    poll: Callable[[], None] | None = None,
) -> None:
    """Append to the log; a failure names the first error."""
    tree.output.mkdir(parents=True, exist_ok=True)
    argv = [*_limits(), "make", "-C", str(tree.path), f"O={tree.output}", f"-j{jobs}", *_words(tree), *targets]
    begin_bytes = log.stat().st_size if log.exists() else 0
    with log.open("ab") as file:
        status = _run(argv, file.fileno(), environment or {}, poll)
    if status:
        with log.open("rb") as file:
            file.seek(begin_bytes)
            raise build_failure(file.read().decode(errors="replace"), tree, log)


def read_make(tree: Tree, target: str) -> str:
    """What a target prints."""
    tree.output.mkdir(parents=True, exist_ok=True)
    argv = ["make", "-s", "--no-print-directory", "-C", str(tree.path), f"O={tree.output}", *_words(tree), target]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=_environment({}))
    if done.returncode:
        raise build_failure(done.stderr, tree)
    return done.stdout.strip().splitlines()[-1]


def build_failure(text: str, tree: Tree, log: Path | None = None) -> KernelFailure:
    """Where the disk is full, not even the log may say so."""
    if FULL.search(text) or shutil.disk_usage(tree.output).free < ROOM_BYTES:
        hint = "free some space, or name another directory in XDPREPRO_CACHE"
        return KernelFailure("no_space", f"{tree.output}: {os.strerror(errno.ENOSPC)}", hint=hint, log=log)
    hint = f"read {log}" if log else ""
    return KernelFailure("build_failed", find_first_error(text, tree), hint=hint, log=log)


def find_first_error(text: str, tree: Tree) -> str:
    """The line of a log that names the cause, with paths as seen from the source."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()] or ["make failed and said nothing"]
    return _find_cause(lines).strip().replace(f"{tree.path}/", "").replace("../", "")


def _find_cause(lines: Sequence[str]) -> str:
    for pattern in ERRORS:
        for line in lines:
            if re.fullmatch(pattern, line):
                return line
    ends = [number for number, line in enumerate(lines) if GIVEN_UP.fullmatch(line)] or [len(lines) - 1]
    # Before make gives up stands what the failed program said, or, indented, which one it was.
    before = lines[max(ends[0] - 1, 0)]
    return lines[ends[0]] if before.startswith("  ") else before


def check_tree(path: Path) -> None:
    """Whether a kernel can be built from it."""
    if not (path / "Kbuild").exists() or not (path / "arch/x86/Makefile").exists():
        raise KernelFailure("no_source", f"{path}: no source of a Linux kernel for x86", hint="name the tree's top")


def read_tools(cc: str) -> dict[str, str]:
    """The first line that each tool says of its version; two kernels by different tools are two kernels."""
    return {"cc": _read_version(cc), "ld": _read_version("ld"), "as": _read_version("as")}


def read_pahole() -> str:
    """As for read_tools(); only kernels with BTF are made with it."""
    return _read_version("pahole")


def find_versions(tools: Mapping[str, str]) -> dict[str, str]:
    """Numbers by the tools' own names, for recipes: the compiler is gcc or clang."""
    names = {"cc": "clang" if "clang" in tools["cc"] else "gcc"}
    # What stands in parentheses is the packager's.
    found = {name: re.search(r"\d+\.\d+(\.\d+)*", re.sub(r"\(.*?\)", "", text)) for name, text in tools.items()}
    return {names.get(name, name): number[0] for name, number in found.items() if number}


def _read_version(tool: str) -> str:
    if shutil.which(tool) is None:
        raise KernelFailure("no_tool", f"{tool}: not found", hint="run 'make setup'")
    done = subprocess.run([tool, "--version"], capture_output=True, text=True, env=_environment({}))
    if done.returncode or not done.stdout:
        raise KernelFailure("no_tool", f"{tool} --version: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout.splitlines()[0]


def _words(tree: Tree) -> list[str]:
    variables = {"CC": tree.cc, **tree.variables}
    return [f"{name}={value.format(tree=tree.path, output=tree.output)}" for name, value in variables.items()]


def _limits() -> list[str]:
    """make yields to others and ends with us, and its children with it."""
    return ["nice", "-n", "10", "setpriv", "--pdeathsig", "TERM"]


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    return {**kept, "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1", **more}


def _run(argv: list[str], output: int, environment: Mapping[str, str], poll: Callable[[], None] | None) -> int:
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=_environment(environment),
    ) as child:
        while True:
            try:
                return child.wait(timeout=POLL_S)
            except subprocess.TimeoutExpired:
                if poll:
                    poll()

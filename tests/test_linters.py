# SPDX-License-Identifier: GPL-2.0-or-later
"""The linters are tests, so that 'make test' is the whole check."""

import os
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from xdprepro import cmd

BIN = Path(sys.executable).parent
LINTERS = {
    "ruff check": ["ruff", "check"],
    "ruff format": ["ruff", "format", "--check"],
    "mypy": ["mypy", "--no-incremental"],  # its cache was seen to report what was mended long ago
    "ansible-lint": ["ansible-lint", "--nocolor", "--offline"],
    "yamllint": ["yamllint", "--strict", "."],
}
# Files that cannot hold a comment, or whose text is not ours.
WITHOUT_SPDX = {"LICENSE", "xdprepro/py.typed"}
SEALED = Path("tests/archive/golden")  # what a release wrote stays as it is
BINARY = {".h5"}


def run_linter(argv: list[str]) -> cmd.Result:
    """In the checkout, with the environment's own tools first, as ansible-lint starts others by name."""
    return cmd.run(
        ["env", "--chdir", ROOT, BIN / argv[0], *argv[1:]],
        env={"PATH": f"{BIN}:{os.environ['PATH']}"},
        check=False,
    )


def tracked_files() -> list[Path]:
    """As git lists them, less those that were deleted just now."""
    listed = cmd.run(["git", "-C", ROOT, "-c", "safe.directory=*", "ls-files", "-z"]).stdout
    return [Path(name) for name in listed.split("\0") if name and (ROOT / name).exists()]


@pytest.mark.parametrize("name", LINTERS)
def test_linter_finds_nothing(name: str) -> None:
    result = run_linter(LINTERS[name])
    assert result.status == 0, result.stdout + result.stderr


def test_c_sources_are_formatted() -> None:
    sources = [file for file in tracked_files() if file.suffix in (".c", ".h")]
    assert sources
    result = run_linter(["clang-format", "--dry-run", "--Werror", *map(str, sources)])
    assert result.status == 0, result.stderr


def test_every_file_names_its_licence_first() -> None:
    nameless = [str(file) for file in tracked_files() if not has_licence(file)]
    assert nameless == []


def has_licence(file: Path) -> bool:
    """In the first line, or in the second after a #! line."""
    if str(file) in WITHOUT_SPDX or file.suffix in BINARY or file.is_relative_to(SEALED):
        return True
    first_lines = (ROOT / file).read_text().splitlines()[:2]
    if first_lines and not first_lines[0].startswith("#!"):
        first_lines = first_lines[:1]
    return any("SPDX-License-Identifier: GPL-2.0-or-later" in line for line in first_lines)

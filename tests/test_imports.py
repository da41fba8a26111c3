# SPDX-License-Identifier: GPL-2.0-or-later
"""The floors of the package: who may import whom, and who may import what of others."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

# A module imports only modules that stand before it here, and a door imports no door.
FLOORS = {
    "words": ["errors", "kernel", "kconfig", "lab", "kinds", "cases", "rules", "suite", "sample"],
    "thought": [
        "intervals",
        "stats",
        "search",
        "places",
        "stages",
        "closure",
        "load",
        "duration",
        "surroundings",
        "validity",
        "comparable",
        "view",
        "exact",
        "compare",
        "costs",
        "working_set",
        "specs",
        "needs",
        "preflight",
        "table",
        "explain",
        "differences",
        "report",
        "exact_report",
        "search_report",
        "passes",
        "rings",
        "published",
    ],
    "process": ["cmd", "scratch"],
    "doors": ["archive", "provision", "guest"],
    "work": [
        "fingerprint",
        "kernel_lock",
        "kernel_store",
        "kernels",
        "trial",
        "rehearsal",
        "guest_job",
        "guest_boots",
        "guest_ahead",
        "session",
        "bench",
        "guest_journal",
        "matrix",
    ],
    "face": ["cli", "__main__"],
}
ORDER = [module for floor in FLOORS.values() for module in floor]

# What is not ours comes in through one module each; numbers are everybody's.
DOORS = {
    "subprocess": {"cmd"},
    "ansible_runner": {"provision"},
    "h5py": {"archive"},
    "MLRsearch": {"search"},
    "google_crc32c": {"archive"},
    "typer": {"cli"},
    "click": {"cli"},
    "rich": {"cli"},
    "numpy": {"archive", *FLOORS["thought"]},
    "scipy": {*FLOORS["thought"]},
}


def find_violations(package: Path) -> list[str]:
    """One line for each import that breaks a rule, in the package named xdprepro at that path."""
    return [
        f"{path.relative_to(package)}: {problem}"
        for path in sorted(package.rglob("*.py"))
        for name in imported_names(path, package)
        if (problem := judge(module_of(path, package), name))
    ]


def module_of(path: Path, package: Path) -> str:
    """A sub-package stands for all that is in it."""
    return path.relative_to(package).with_suffix("").parts[0]


def imported_names(path: Path, package: Path) -> Iterator[str]:
    """Dotted names, of `from xdprepro import x` the name xdprepro.x; wherever in the file they are imported."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            inside = module == package.name
            yield from (f"{module}.{alias.name}" for alias in node.names) if inside else [module]


def judge(module: str, name: str) -> str | None:
    top, _, rest = name.partition(".")
    if not top:
        return "imports relatively"
    if top == "xdprepro":
        return judge_own(module, rest.partition(".")[0])
    if top in DOORS:
        return None if module in DOORS[top] else f"imports {top}, which only {', '.join(sorted(DOORS[top]))} may"
    return None if top in sys.stdlib_module_names else f"imports {top}, which has no door"


def judge_own(module: str, other: str) -> str | None:
    if other in ("", module) or other.startswith("__version"):
        return None
    if module == "__init__":
        return f"the package itself imports {other}"
    for name in (module, other):
        if name not in ORDER:
            return f"{name} has no floor"
    if module in FLOORS["doors"] and other in FLOORS["doors"]:
        return f"a door imports the door {other}"
    return None if ORDER.index(other) < ORDER.index(module) else f"imports {other}, which stands above or beside it"


def test_every_module_has_a_floor() -> None:
    modules = {module_of(path, ROOT / "xdprepro") for path in (ROOT / "xdprepro").rglob("*.py")}
    assert modules - {"__init__"} == set(ORDER)


def test_imports_keep_the_floors() -> None:
    assert find_violations(ROOT / "xdprepro") == []


@pytest.mark.parametrize(
    ("file", "line", "problem"),
    [
        ("stats.py", "from xdprepro import bench", "imports bench, which stands above or beside it"),
        ("stats.py", "import xdprepro.bench", "imports bench, which stands above or beside it"),
        ("lab.py", "def f():\n    from xdprepro.cmd import run", "imports cmd, which stands above or beside it"),
        ("archive/read.py", "from xdprepro.provision import up", "a door imports the door provision"),
        ("provision.py", "from xdprepro.archive.read import load_run", "a door imports the door archive"),
        ("bench.py", "import subprocess", "imports subprocess, which only cmd may"),
        ("bench.py", "from rich.table import Table", "imports rich, which only cli may"),
        ("stats.py", "import requests", "imports requests, which has no door"),
        ("archive/read.py", "from . import write", "imports relatively"),
        ("attic.py", "from xdprepro import errors", "attic has no floor"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, file: str, line: str, problem: str) -> None:
    path = tmp_path / "xdprepro" / file
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    assert find_violations(tmp_path / "xdprepro") == [f"{file}: {problem}"]


def test_what_is_allowed_is_let_pass(tmp_path: Path) -> None:
    package = tmp_path / "xdprepro"
    package.mkdir()
    (package / "bench.py").write_text("import json\nimport xdprepro\nfrom xdprepro import archive, __version__\n")
    (package / "cmd.py").write_text("import subprocess\nfrom xdprepro.errors import XdpreproError\n")
    assert find_violations(package) == []

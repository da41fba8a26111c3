# SPDX-License-Identifier: GPL-2.0-or-later
"""What the agent says it was built from."""

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

from xdprepro.kinds import CASE_KINDS

ROOT = Path(__file__).parent.parent.parent


def version(agent: Path) -> dict[str, Any]:
    done = subprocess.run([agent, "version"], capture_output=True, text=True, check=True, timeout=10)
    line: dict[str, Any] = json.loads(done.stdout)
    return line


def test_hashes_are_those_of_the_objects(agent: Path) -> None:
    objects = {path.name.removesuffix(".bpf.o"): path for path in (ROOT / "bpf/build").glob("*.bpf.o")}
    assert version(agent)["bpf"] == {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in objects.items()
    }


def test_every_program_source_is_in_the_agent(agent: Path) -> None:
    names = {path.name.removesuffix(".bpf.c") for path in (ROOT / "bpf").glob("*.bpf.c")}
    assert set(version(agent)["bpf"]) == names | {f"{name}_one_queue" for name in names}


def test_every_case_names_its_roles_and_its_program(agent: Path) -> None:
    told = version(agent)
    assert told["cases"]["xdp.tx.swap-macs"] == {
        "roles": ["forward"],
        "object": "xdp_tx",
        "program": "xdp_tx_swap_macs",
    }
    assert {case["object"] for case in told["cases"].values() if case["object"]} <= set(told["bpf"])


def test_cases_are_those_of_the_suites(agent: Path) -> None:
    roles = {name: case["roles"] for name, case in version(agent)["cases"].items() if not name.startswith("bare.")}
    assert set(roles) == set(CASE_KINDS)
    assert [name for name, kind in CASE_KINDS.items() if kind.role not in roles[name]] == []


def test_compilers_and_libraries_are_named(agent: Path) -> None:
    built_from = version(agent)["built_from"]
    assert "clang" in built_from["clang"]
    assert all(built_from[name] for name in ("cc", "clang", "libbpf", "libxdp", "jansson", "libc"))

# SPDX-License-Identifier: GPL-2.0-or-later
"""A change in a kernel's source, from the commit to the function in which it shows.

The source and its two kernels are kept in the cache, so that all but the first run of this test only boot them.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import need

from xdprepro import archive, cmd
from xdprepro.guest_job import WINDOWS
from xdprepro.kernel import Kernel, cache_directory
from xdprepro.kernels import fetch_source, find_kernel
from xdprepro.validity import flag_names, trial_flags

pytestmark = [pytest.mark.vm, pytest.mark.timeout(2400)]

SOURCE = "deb-src:linux-source-6.1"
CHANGED = "drivers/net/veth.c"
FUNCTION = "veth_xdp_rcv_one"
PLANTED = 7
PLACE = "\trcu_read_lock();\n\txdp_prog = rcu_dereference(rq->xdp_prog);\n"
SLOWER = f'\tasm_inline volatile(".rept {PLANTED}\\n\\tnop\\n\\t.endr");\n'
# Equal commits of equal sources, whoever makes them.
GIT_ENV = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "test"), ("EMAIL", "test@localhost"), ("DATE", "2026-01-01T00:00:00Z"))
}


def git(repository: Path, *args: str) -> None:
    cmd.run(["git", "-C", repository, "-c", "gc.auto=0", "-c", "safe.directory=*", *args], env=GIT_ENV)


def make_repository(tree: Path, repository: Path) -> None:
    """The distribution's source as a commit `before`."""
    new = repository.with_name(f"{repository.name}.new")
    cmd.run(["rm", "-rf", new])
    cmd.run(["cp", "--archive", tree, new])
    git(new, "init", "--quiet")
    git(new, "add", "--force", "--all")
    git(new, "commit", "--quiet", "--message", "source")
    git(new, "tag", "before")
    new.rename(repository)


def plant(repository: Path) -> None:
    """A commit `after` with instructions that do nothing, where a packet becomes the program's."""
    git(repository, "checkout", "--quiet", "--force", "before")
    path = repository / CHANGED
    head, start, body = path.read_text().partition(f"*{FUNCTION}(")
    assert PLACE in body
    path.write_text(head + start + body.replace(PLACE, SLOWER + PLACE, 1))
    git(repository, "commit", "--quiet", "--all", "--message", "slower")
    git(repository, "tag", "--force", "after")


@pytest.fixture(scope="module")
def pair(qemu: str) -> tuple[Kernel, Kernel]:
    """A kernel and the same one with the change."""
    need(Path("/usr/bin/flex").exists(), "no tools to build a kernel: run 'make setup'")
    source = fetch_source(SOURCE)
    repository = cache_directory() / "tests" / f"{source.tree.name}.git-tree"
    repository.parent.mkdir(parents=True, exist_ok=True)
    if not repository.exists():
        make_repository(source.tree, repository)
    plant(repository)
    before, after = (find_kernel(f"git:{repository}@{tag}", config="tiny") for tag in ("before", "after"))
    return before, after


def xdprepro(*args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "xdprepro", *args], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_planted_instructions_show_in_their_function_and_nowhere_else(
    pair: tuple[Kernel, Kernel], tmp_path: Path
) -> None:
    before, after = (kernel.key for kernel in pair)
    assert before != after
    archive = ("--archive", str(tmp_path))
    args = ("--lab", "vm", "--kernel", before, "--kernel", after, "--case", "xdp.drop.no*", "--json")
    first, second = (one["run_id"] for one in json.loads(xdprepro("run", "smoke", *args, *archive)))
    told = json.loads(xdprepro("explain", first, second, "xdp.drop.no*", "--json", *archive))
    rows = {row["function"]: row for row in told["rows"] if row["kind"] == "function"}
    assert rows[FUNCTION]["delta_insn"] == PLANTED
    assert [name for name, row in rows.items() if row["delta_insn"]] == [FUNCTION]
    (total,) = (row for row in told["rows"] if row["kind"] == "sum")
    assert total["delta_insn"] == pytest.approx(PLANTED)
    judged = json.loads(xdprepro("compare", first, second, "--json", *archive))
    assert [row["verdict"] for row in judged["count_compare"]["rows"]] == ["REGRESSED"]
    assert judged["config"]["rows"] == []


def test_every_packet_crosses_a_card(pair: tuple[Kernel, Kernel], tmp_path: Path) -> None:
    """A small kernel sends more than a thousand frames before the card's first interrupt, and none may be lost."""
    args = ("--lab", "vm", "--kernel", pair[0].key, "--port", "igb", "--case", "xdp.drop.no*")
    (one,) = json.loads(xdprepro("run", "smoke", *args, "--json", "--archive", str(tmp_path)))
    run = archive.load_run(Path(one["path"]))
    assert [flag_names(trial_flags(trial, run)) for trial in run.trials] == [()] * 3
    assert [trial.profile and trial.profile.packets for trial in run.trials] == list(WINDOWS)

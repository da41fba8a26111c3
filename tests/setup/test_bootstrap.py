# SPDX-License-Identifier: GPL-2.0-or-later
"""From a checkout to a working environment: in a path with spaces, interrupted, again, and with what can be wrong."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, need

from xdprepro import cmd

LOCKS = ("requirements.lock", "requirements-test.lock")


def copy_checkout(target: Path) -> Path:
    """What a clone of the present state would hold."""
    listed = cmd.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]).stdout
    for name in listed.split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def make(checkout: Path, *words: str, archive: Path | None = None) -> cmd.Result:
    """With a cache of its own beside the checkout, but with pip's as it is: only what was built is made anew."""
    env = {"XDPREPRO_CACHE": str(checkout.parent / "cache")}
    if archive is not None:
        env["XDPREPRO_ARCHIVE"] = str(archive)
    argv: cmd.Argv = ["make", "--no-print-directory", "-C", checkout, *words]
    return cmd.run(argv, env=env, check=False)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need(Path("/usr/bin/python3").exists(), "no /usr/bin/python3: install the distribution's python3")
    return copy_checkout(tmp_path_factory.mktemp("setup") / "a path with spaces")


@pytest.fixture(scope="module")
def interrupted(checkout: Path) -> Path:
    """A checkout whose bootstrap was killed while pip was at work."""
    cache = checkout.parent / "cache"
    with subprocess.Popen(
        [checkout / "bootstrap.sh", "requirements.lock"],
        env=os.environ | {"XDPREPRO_CACHE": str(cache)},
        start_new_session=True,
    ) as bootstrap:
        deadline = time.monotonic() + 120
        while not list(cache.glob("venv-*/lib/python3*/site-packages/ansible_core-*")):
            assert bootstrap.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.killpg(bootstrap.pid, signal.SIGKILL)
    assert not list(cache.glob("venv-*/stamp-*"))
    return checkout


@pytest.fixture(scope="module")
def ready(interrupted: Path) -> Path:
    result = make(interrupted, "setup", "build")
    assert result.status == 0, result.stderr
    assert "bootstrap: make " in result.stdout
    return interrupted


@pytest.fixture
def lab_path(ready: Path) -> Iterator[Path]:
    path = ready / "inventory" / f"xdpt-{os.getpid()}-s"
    shutil.copytree(ready / "inventory/veth", path)
    yield path
    for role in ("dut", "tester"):
        cmd.run(["ip", "netns", "del", f"xdprepro-{path.name}-{role}"], check=False)
    shutil.rmtree(path)


@pytest.mark.slow
def test_an_interrupted_bootstrap_is_done_again_in_full(ready: Path) -> None:
    would = cmd.run(
        [ready / ".venv/bin/pip", "install", "--dry-run", "--require-hashes", "-r", ready / "requirements.lock"]
    )
    assert "Would install" not in would.stdout
    script = """
import sysconfig
from importlib.metadata import distributions
files = [file for found in distributions(path=[sysconfig.get_path("purelib")]) for file in found.files]
print(len(files), [str(file) for file in files if not file.locate().exists()])
"""
    number, missing = cmd.run([ready / ".venv/bin/python", "-c", script]).stdout.split(maxsplit=1)
    assert int(number) > 1000
    assert missing == "[]\n"


@pytest.mark.slow
def test_the_environment_is_outside_the_checkout_and_of_the_distributions_python(ready: Path) -> None:
    venv = (ready / ".venv").resolve()
    assert venv.parent == ready.parent / "cache"
    assert "home = /usr/bin\n" in (venv / "pyvenv.cfg").read_text()
    assert "include-system-site-packages = true" in (venv / "pyvenv.cfg").read_text()


@pytest.mark.slow
def test_the_distributions_bcc_is_seen(ready: Path) -> None:
    where = cmd.run([ready / ".venv/bin/python", "-c", "import bcc; print(bcc.__file__)"]).stdout
    assert where.startswith("/usr/lib/python3/")


@pytest.mark.slow
def test_the_second_set_up_does_nothing(ready: Path) -> None:
    built = {path: path.stat().st_mtime_ns for path in made_files(ready)}
    assert any(path.name == "xdprepro-agent" for path in built)
    said = make(ready, "setup", "build").stdout
    assert "bootstrap:" not in said
    assert re.search(r"localhost .* changed=0 ", said)
    assert {path: path.stat().st_mtime_ns for path in made_files(ready)} == built


def made_files(checkout: Path) -> list[Path]:
    stamps = (checkout / ".venv").resolve().glob("stamp-*")
    return [*stamps, *(checkout / "bpf/build").iterdir(), *(checkout / "native/build").iterdir()]


@pytest.mark.slow
@pytest.mark.netns
@pytest.mark.usefixtures("root_user")
def test_the_lab_goes_up_and_down_from_a_path_with_spaces(ready: Path, lab_path: Path) -> None:
    xdprepro = ready / ".venv/bin/xdprepro"
    netns = f"xdprepro-{lab_path.name}-dut"
    cmd.run([xdprepro, "up", lab_path.name])
    agent = ready / "native/build/xdprepro-agent"
    assert '"ifname":"dut0"' in cmd.run([agent, "probe", "dut0"], netns=netns).stdout.replace(" ", "")
    cmd.run([xdprepro, "down", lab_path.name])
    assert not Path("/run/netns", netns).exists()


@pytest.mark.slow
@pytest.mark.netns
@pytest.mark.usefixtures("root_user")
def test_a_first_job_that_fails_takes_the_lab_down(ready: Path, lab_path: Path) -> None:
    (ready / "no-folder").touch()
    result = make(ready, "run", f"LAB={lab_path.name}", archive=ready / "no-folder/runs")
    assert result.status != 0
    assert f"lab {lab_path.name} is up" in result.stderr
    assert "no-folder" in result.stderr
    assert not Path("/run/netns", f"xdprepro-{lab_path.name}-dut").exists()


@pytest.mark.slow
def test_ansible_finds_the_collection_in_the_checkout(ready: Path) -> None:
    said = cmd.run([ready / ".venv/bin/ansible-doc", "--list", "xdprepro.lab"]).stdout
    assert {line.split()[0] for line in said.splitlines()} == {
        "xdprepro.lab.link_facts",
        "xdprepro.lab.netns",
        "xdprepro.lab.veth_pair",
    }


def test_a_cache_with_spaces_is_refused() -> None:
    result = cmd.run([ROOT / "bootstrap.sh", "requirements.lock"], env={"XDPREPRO_CACHE": "/tmp/a cache"}, check=False)
    assert result.status == 1
    assert result.stderr.startswith("bootstrap: '/tmp/a cache' has spaces in it")
    assert result.stderr.endswith("set XDPREPRO_CACHE\n")


def test_a_lock_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = cmd.run([ROOT / "bootstrap.sh", "no.lock"], env={"XDPREPRO_CACHE": str(tmp_path)}, check=False)
    assert result.status == 1
    assert result.stderr == f"bootstrap: {ROOT}/no.lock: no such lock file\n"


def test_an_environment_of_the_users_own_is_not_touched(tmp_path: Path) -> None:
    for name in ("bootstrap.sh", "requirements.lock"):
        shutil.copy2(ROOT / name, tmp_path / name)
    (tmp_path / ".venv").mkdir()
    result = cmd.run([tmp_path / "bootstrap.sh", "requirements.lock"], check=False)
    assert result.status == 1
    assert result.stderr == f"bootstrap: {tmp_path}/.venv is not a link that this made: move it away\n"


def test_the_test_lock_holds_all_that_the_other_one_does() -> None:
    """So an environment for the tests is one for running, too."""
    pins = [set(re.findall(r"^\S+==\S+", (ROOT / name).read_text(), re.MULTILINE)) for name in LOCKS]
    assert len(pins[0]) > 20
    assert pins[0] < pins[1]


@pytest.mark.usefixtures("root_user")
def test_ci_without_root_says_what_it_needs_it_for() -> None:
    script = (ROOT / ".ci/run").read_text()
    result = cmd.run(["setpriv", "--reuid=65534", "--clear-groups", "bash", "-s"], input=script, check=False)
    assert result.status == 1
    assert "needs root: it installs packages" in result.stderr

# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels by name through the whole way: command line, Ansible, packages, cache; also twice at once and interrupted."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.xdprepro.lab.plugins.module_utils import source_tree
from conftest import ROOT, need
from debian_mirror import (
    LARGE_BYTES,
    Mirror,
    image_package,
    make_bzimage,
    make_mirror,
    make_module,
    make_tree,
)

from xdprepro import cli, cmd, kernel_lock, kernel_store, kernels
from xdprepro.errors import FAILED, INTERRUPTED, PRIVILEGE, STORAGE, UNAVAILABLE, USAGE, XdpreproError
from xdprepro.kernel import Kernel, KernelError

XDPREPRO = [sys.executable, "-m", "xdprepro", "kernel"]
WAIT_S = 120  # for what takes seconds on an idle machine


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Mirror:
    directory = tmp_path_factory.mktemp("mirror")
    module = make_module(directory)
    packages = [
        image_package("6.1.0-50-amd64", "6.1.176-1", module),
        image_package("6.12.9+deb13-amd64", "6.12.9-1", module),
        image_package("6.16.1-amd64", "6.16.1-1", module, size_bytes=LARGE_BYTES),
    ]
    return make_mirror(directory, {"bookworm": packages})


@pytest.fixture(scope="module")
def filled(mirror: Mirror, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with one kernel and the package lists."""
    cache = tmp_path_factory.mktemp("filled") / "cache"
    done = run("fetch", "deb:6.1", "--json", env=mirror.environment | {"XDPREPRO_CACHE": str(cache)})
    assert done.status == 0, done.stderr
    assert json.loads(done.stdout)[0]["spec"] == "deb:linux-image-6.1.0-50-amd64=6.1.176-1"
    assert "deb:6.1: package lists: " in done.stderr
    return cache


@pytest.fixture
def cache(filled: Path, mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same for each test, and the environment that leads there."""
    copy = tmp_path / "cache"
    shutil.copytree(filled, copy)
    for name, value in {**mirror.environment, "XDPREPRO_CACHE": str(copy)}.items():
        monkeypatch.setenv(name, value)
    return copy


def run(*words: str, env: dict[str, str] | None = None, under: tuple[str, ...] = ()) -> cmd.Result:
    return cmd.run([*under, *XDPREPRO, *words], env=env, check=False, timeout_s=WAIT_S)


@pytest.fixture
def run_here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., cmd.Result]:
    """The command line without a process of its own, which would need longer to start than to work."""

    def run_here(*words: str) -> cmd.Result:
        monkeypatch.setattr(sys, "argv", ["xdprepro", "kernel", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return cmd.Result(words, int(ended.value.code or 0), *capsys.readouterr())

    return run_here


@contextmanager
def start(*words: str) -> Iterator["subprocess.Popen[str]"]:
    """A command of its own session, so that a signal to it reaches nobody else."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    child = subprocess.Popen([*XDPREPRO, *words], **pipes, start_new_session=True)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def wait_for(condition: Any, what: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited in vain: {what}"
        time.sleep(0.002)


def states() -> dict[str, str]:
    return {entry.key: entry.state for entry in kernel_store.list_entries()}


def only_kernel() -> Kernel:
    (kernel,) = kernels.list_kernels()
    return kernel


def test_a_spec_stays_what_it_was_found_to_be(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Ansible, a mirror or a network."""
    monkeypatch.setenv("XDPREPRO_DEBIAN_MIRROR", "file:/none")
    (cache / "apt/index.json").unlink()
    assert kernels.find_kernel("deb:6.1") == only_kernel()
    assert kernels.find_kernel(only_kernel().key) == only_kernel()
    assert not (cache / "play").exists() or not list((cache / "play").iterdir())


def test_a_package_that_is_not_there_ends_with_its_reason(cache: Path) -> None:
    done = run("fetch", "deb:6.2")
    assert done.status == USAGE
    assert done.stderr.splitlines()[-2:] == [
        "error: no image package of the series 6.2",
        "hint: there are: 6.1, 6.12, 6.16",
    ]
    assert "package lists:" in done.stderr  # they were renewed before saying no
    assert list(states().values()) == ["ready"]


def test_two_at_once_make_it_once(cache: Path) -> None:
    with start("fetch", "deb:6.16") as one, start("fetch", "deb:6.16") as other:
        said = [child.communicate(timeout=WAIT_S) for child in (one, other)]
    assert (one.returncode, other.returncode) == (0, 0), said
    assert said[0][0] == said[1][0]
    assert said[0][0].strip() in states()
    assert any("waiting: another command" in stderr for _, stderr in said)


def find_play(pid: int) -> int:
    """The ansible-playbook that a thread of this process started, not its workers."""
    children = " ".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")).split()
    (found,) = (one for one in children if b"ansible-playbook" in Path(f"/proc/{one}/cmdline").read_bytes())
    return int(found)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_play_that_a_signal_ends_is_told_to_be_interrupted(cache: Path, number: signal.Signals) -> None:
    with start("fetch", "deb:6.16") as child:
        wait_for(lambda: list(cache.glob("kernels/.6.16*/package.deb")), "a download")
        os.kill(find_play(child.pid), number)
        _, said = child.communicate(timeout=WAIT_S)
    assert child.returncode == INTERRUPTED
    assert said.splitlines()[-2:] == [
        "error: kernel: interrupted: ansible-playbook was ended by a signal before it was through",
        "hint: run the command again",
    ]
    assert "PLAY" not in said


def test_a_killed_fetch_leaves_nothing_that_counts(cache: Path) -> None:
    with start("fetch", "deb:6.16") as child:
        wait_for(lambda: list(cache.glob("kernels/.6.16*/package.deb")), "a download")
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    # Ansible and its module end with it, and the lock with them.
    wait_for(lambda: "being made" not in states().values(), "the end of the module")
    assert sorted(states().values()) == ["interrupted", "ready"]
    assert [kernel.release for kernel in kernels.list_kernels()] == ["6.1.0-50-amd64"]
    done = run("fetch", "deb:6.16")
    assert done.status == 0, done.stderr
    assert list(states().values()) == ["ready", "ready"]
    assert kernels.find_cached("deb:6.16").image.stat().st_size == LARGE_BYTES


def test_ctrl_c_ends_a_fetch_and_all_that_works_for_it(cache: Path) -> None:
    with start("fetch", "deb:6.16") as child:
        wait_for(lambda: list(cache.glob("kernels/.6.16*/package.deb")), "a download")
        os.kill(child.pid, signal.SIGINT)
        _, stderr = child.communicate(timeout=WAIT_S)
    assert child.returncode == 130, stderr
    assert "being made" not in states().values()
    assert [kernel.release for kernel in kernels.list_kernels()] == ["6.1.0-50-amd64"]


def test_another_system_must_name_a_mirror(cache: Path, tmp_path: Path, root_user: None) -> None:
    other = tmp_path / "os-release"
    other.write_text('ID=fedora\nNAME="Debian in name only"\n')
    mounted = cmd.run(["unshare", "--mount", "mount", "--bind", other, "/etc/os-release"], check=False)
    need(mounted.status == 0, f"cannot mount: {mounted.stderr.strip()}")
    script = 'mount --bind "$0" /etc/os-release && exec "$@"'
    under = ("unshare", "--mount", "sh", "-c", script, str(other))
    done = run("fetch", "deb:6.12", "--refresh", env={"XDPREPRO_DEBIAN_MIRROR": ""}, under=under)
    assert done.status == UNAVAILABLE
    assert "error: this machine is no Debian" in done.stderr
    assert "hint: set XDPREPRO_DEBIAN_MIRROR" in done.stderr


def test_a_fetch_needs_no_privilege(cache: Path, root_user: None) -> None:
    """Root without capabilities is a user who owns the cache."""
    under = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    done = run("fetch", "deb:6.12", env={"HOME": "/nonexistent"}, under=under)
    assert done.status == 0, done.stderr
    assert sorted(kernel.release for kernel in kernels.list_kernels()) == ["6.1.0-50-amd64", "6.12.9+deb13-amd64"]


# What is there already


def test_an_image_is_copied_again_when_its_file_changed(cache: Path, tmp_path: Path) -> None:
    image = tmp_path / "bzImage"
    image.write_bytes(make_bzimage("6.9.0-mine"))
    first = kernels.find_kernel(f"image:{image}")
    assert first.release == "6.9.0-mine"
    stamp = first.image.stat().st_ctime_ns
    assert kernels.find_kernel(f"image:{image}") == first
    assert first.image.stat().st_ctime_ns == stamp
    image.write_bytes(make_bzimage("6.9.0-mine", size_bytes=8192))
    assert kernels.find_kernel(f"image:{image}").key != first.key


def test_a_source_is_fetched_without_building(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are those of the user's directory, not of Ansible's."""
    make_tree(tmp_path / "linux")
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=one"]):
        cmd.run(["git", "-C", tmp_path / "linux", "-c", "user.name=t", "-c", "user.email=t@example.org", *words])
    monkeypatch.chdir(tmp_path)
    source = kernels.fetch_source("git:linux@HEAD")
    assert source.spec.startswith(f"git:{tmp_path}/linux@")
    assert (source.tree / "drivers/net/veth.c").exists()
    # As a kernel it is of no use, which make says.
    done = run("build", "git:linux@HEAD")
    assert done.status == FAILED
    assert done.stderr.splitlines()[-1] == "error: Makefile:1: *** missing separator.  Stop."


def test_what_logs_in_is_never_shown(cache: Path) -> None:
    done = run("fetch", "git:http://robot:secret@127.0.0.1:1/linux@v1")
    assert done.status == FAILED
    assert "error: http://127.0.0.1:1/linux: git: fatal: " in done.stderr
    assert "secret" not in done.stdout + done.stderr
    assert [path for path in cache.rglob("*") if path.is_file() and b"secret" in path.read_bytes()] == []


@pytest.mark.parametrize("kind", ["deb", "deb-src", "tarball"])
def test_check_mode_says_what_would_be_made_of_an_empty_cache(tmp_path: Path, kind: str) -> None:
    """Everything after that depends on what was not read or made, and yet none of it fails."""
    names = {"deb": "6.1", "deb-src": "linux-source-6.1", "tarball": "https://example.org/linux.tar"}
    empty = dict.fromkeys(("ref", "version", "suite", "modules", "config", "progress"), "")
    wanted: dict[str, Any] = {
        **empty,
        "kind": kind,
        "name": names[kind],
        "sha256": "0" * 64,
        "cache": str(tmp_path / "cache"),
    }
    wanted |= {"refresh": False, "source_only": False, "config_base": "tiny", "config_fragments": []}
    extra = {f"kernel_{name}": value for name, value in wanted.items()} | {"kernel_result": str(tmp_path / "result")}
    extra["ansible_python_interpreter"] = sys.executable
    program, playbook = Path(sys.executable).parent / "ansible-playbook", ROOT / "playbooks/kernel.yml"
    argv: list[str | Path] = [program, "-i", "localhost,", "-c", "local", "--check", playbook, "-e", json.dumps(extra)]
    done = cmd.run(argv, env={"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}, check=False, timeout_s=WAIT_S)
    assert done.status == 0, done.stdout
    assert "failed=0" in done.stdout and "rescued=0" in done.stdout and "changed=0" not in done.stdout
    assert not list(tmp_path.glob("cache/kernels/*")) and not (tmp_path / "result").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "deb:6.99"], "kernel 'deb:6.99' is not in the cache"),
        (["show", "6.1-0123456789ab"], "no kernel 6.1-0123456789ab"),
        (["show", "6.1"], "kernel '6.1': no kernel is spelled like that"),
        (["prune", "6.1-0123456789ab"], "no kernel 6.1-0123456789ab in the cache"),
        (["build", "deb:6.1"], "kernel 'deb:6.1' is not built here"),
        (["build", "git:/none@v1", "--config", "/none/config"], "/none/config: no such file"),
        (["fetch", "tarball:https://example.org/x.tar"], "a tarball from a URL needs its sha256"),
    ],
)
def test_bad_input_is_refused_at_once(
    cache: Path, run_here: Callable[..., cmd.Result], words: list[str], message: str
) -> None:
    done = run_here(*words)
    assert done.status == USAGE
    assert message in done.stderr
    assert "hint: " in done.stderr
    assert done.stdout == ""


# Looking and pruning


def test_list_and_show_tell_what_is_there(cache: Path, run_here: Callable[..., cmd.Result]) -> None:
    kernel = only_kernel()
    listed = json.loads(run_here("list", "--json").stdout)
    assert [(one["key"], one["state"], one["kernel"]["spec"]) for one in listed] == [(kernel.key, "ready", kernel.spec)]
    table = run_here("list").stdout
    assert kernel.key in table
    assert "MB" in table
    shown = json.loads(run_here("show", "deb:6.1", "--json").stdout)
    assert shown == json.loads(run_here("show", kernel.spec, "--json").stdout)
    assert shown["image_sha256"] == kernel.image_sha256
    assert "linux-image-6.1.0-50-amd64" in run_here("show", kernel.key).stdout


def test_the_size_is_that_of_the_files(cache: Path) -> None:
    kernel = only_kernel()
    directory = kernel_store.kernel_directory(kernel.key)
    files = [path for path in directory.rglob("*") if path.is_file() and path.name != "manifest.json"]
    assert kernel.size_bytes == sum(path.stat().st_size for path in files)


def test_a_damaged_manifest_breaks_no_list(cache: Path, run_here: Callable[..., cmd.Result]) -> None:
    manifest = kernel_store.kernel_directory(only_kernel().key) / "manifest.json"
    manifest.write_text(manifest.read_text()[:-30])
    assert list(states().values()) == ["damaged"]
    assert kernels.list_kernels() == []
    done = run_here("prune", *states())
    assert done.status == 0
    assert states() == {}


def test_an_image_that_was_changed_is_not_booted(cache: Path) -> None:
    kernel = only_kernel()
    kernel_store.check_image(kernel)
    image = bytearray(kernel.image.read_bytes())
    image[-1] ^= 1
    kernel.image.write_bytes(image)
    with pytest.raises(KernelError, match="its SHA-256 differs"):
        kernel_store.check_image(kernel)


def test_an_image_that_is_cut_off_is_refused(cache: Path, tmp_path: Path, run_here: Callable[..., cmd.Result]) -> None:
    image = tmp_path / "bzImage"
    image.write_bytes(make_bzimage("6.9.0-mine", paragraphs=96)[:-1])
    done = run_here("fetch", f"image:{image}")
    assert done.status == FAILED
    assert done.stderr.splitlines()[-2:] == [
        f"error: {image}: cut off: 1 of its bytes are missing",
        "hint: copy or build it again",
    ]


def test_prune_frees_what_it_says(cache: Path) -> None:
    kernel = only_kernel()
    told = kernel_store.prune([kernel.key], dry_run=True)
    assert states() == {kernel.key: "ready"}
    assert kernel_store.prune([kernel.key]) == told
    assert told.removed == ((kernel.key, kernel.size_bytes),)
    assert told.freed_bytes == kernel.size_bytes
    assert states() == {}
    assert (cache / "apt/index.json").exists()


def test_prune_without_a_name_takes_only_what_was_interrupted(cache: Path) -> None:
    left = cache / "kernels/.6.1-0123456789ab.new"
    left.mkdir()
    (left / "package.deb").write_bytes(bytes(1000))
    pruned = kernel_store.prune()
    assert pruned.removed == (("6.1-0123456789ab", 1000),)
    assert not left.exists()
    assert list(states().values()) == ["ready"]


def test_prune_by_age_goes_by_the_last_use(cache: Path) -> None:
    kernel = only_kernel()
    os.utime(kernel_store.kernel_directory(kernel.key), (time.time() - 3 * 86400,) * 2)
    assert kernel_store.prune(older_than_days=4, dry_run=True).removed == ()
    assert kernel_store.prune(older_than_days=2, dry_run=True).removed == ((kernel.key, kernel.size_bytes),)
    kernels.find_kernel("deb:6.1")
    assert kernel_store.prune(older_than_days=2).removed == ()


def test_a_kernel_in_use_stays(cache: Path, run_here: Callable[..., cmd.Result]) -> None:
    kernel = only_kernel()
    with kernel_store.start_use(kernel), kernel_store.start_use(kernel):
        done = run_here("prune", "--all", "--json")
        assert done.status == 0
        assert json.loads(done.stdout)["kept"] == [[kernel.key, "in use"]]
        assert states() == {kernel.key: "in use"}
    assert states() == {kernel.key: "ready"}
    assert run_here("prune", "--all").status == 0
    with pytest.raises(KernelError, match="no kernel"), kernel_store.start_use(kernel):
        pass


def test_prune_all_empties_the_cache_but_for_locks(cache: Path, run_here: Callable[..., cmd.Result]) -> None:
    for area in ("sources", "builds", "configs", "ccache", "play", "tests"):
        (cache / area / "tree").mkdir(parents=True, exist_ok=True)
        (cache / area / "tree/file").write_bytes(bytes(5000))
    (cache / "accel.json").write_text("{}")
    (cache / "venv-0123456789ab").mkdir()
    (cache / "venv-0123456789ab/python").touch()
    assert {"kernels", "locks", "venv-0123456789ab", *kernel_store.AREAS} == {path.name for path in cache.iterdir()}
    done = run_here("prune", "--all")
    assert "removed sources, source trees and git mirrors (0.0 MB)" in done.stdout
    left = [path for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert left == [cache / "venv-0123456789ab/python"]


def test_what_a_build_reads_stays(cache: Path) -> None:
    """Of a role that somebody plays without our command line, the lock of the tree tells."""
    tree = cache / "sources/linux"
    make_tree(tree)
    with source_tree.start_reading(tree, cache), source_tree.start_reading(tree, cache):
        pruned = kernel_store.prune(everything=True)
    assert ("sources", "in use") in pruned.kept
    assert (tree / "Makefile").exists()
    assert kernel_store.prune(everything=True).kept == ()
    assert not tree.exists()


def test_nothing_goes_while_another_command_works(cache: Path) -> None:
    with start("fetch", "deb:6.16"):
        wait_for(lambda: list(cache.glob("play/*/progress")), "a playbook")
        pruned = kernel_store.prune(everything=True)
    assert {("apt", "in use"), ("asked", "in use"), ("play", "in use")} <= set(pruned.kept)
    assert (cache / "apt/index.json").exists()


def test_who_looks_is_not_taken_for_a_user(cache: Path) -> None:
    """And what is being made is told from what is used."""
    lock = kernel_lock.lock_path(only_kernel().key)
    with ThreadPoolExecutor(4) as pool:
        seen = [pool.submit(lambda: [states() for _ in range(50)]) for _ in range(4)]
        assert {state for one in seen for found in one.result() for state in found.values()} == {"ready"}
    (kernel_store.kernel_directory(only_kernel().key) / "manifest.json").unlink()
    for mode, state in ((fcntl.LOCK_SH, "in use"), (fcntl.LOCK_EX, "being made")):
        with lock.open("a") as file:
            fcntl.flock(file, mode)
            assert list(states().values()) == [state]


def test_two_prunes_at_once_share_the_work(cache: Path) -> None:
    for number in range(40):
        (cache / f"kernels/6.1-{number:012x}").mkdir()
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(kernel_store.prune, everything=True) for _ in range(4)]
        for one in done:
            one.result()
    assert kernel_store.prune(everything=True).kept == ()
    assert states() == {}


def test_diff_tells_choices_from_what_comes_with_the_version(
    cache: Path, tmp_path: Path, run_here: Callable[..., cmd.Result]
) -> None:
    image, config = tmp_path / "bzImage", tmp_path / "config"
    image.write_bytes(make_bzimage("6.1.0-mine"))
    config.write_text('CONFIG_CC_VERSION_TEXT="gcc-13"\nCONFIG_VETH=y\nCONFIG_NEW=y\n')
    mine = kernels.find_kernel(f"image:{image},config={config}")
    told = json.loads(run_here("diff", "deb:6.1", mine.key, "--json").stdout)
    assert told["changed"] == [{"symbol": "VETH", "a": "m", "b": "y"}]
    assert {one["symbol"] for one in told["version_bound"]} == {"CC_VERSION_TEXT", "NEW"}
    assert told["compilers"] == ["gcc-12 (test) 12.2.0", "gcc-13"]
    text = run_here("diff", "deb:6.1", mine.key).stdout
    assert "1 changed, 2 come with the version or the tools" in text
    assert "compilers differ: gcc-12 (test) 12.2.0, gcc-13" in text


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDPREPRO_CACHE", str(tmp_path / "file/cache"))
    with pytest.raises(XdpreproError, match="Not a directory") as caught:
        kernels.find_kernel("deb:6.1")
    assert caught.value.status in (STORAGE, PRIVILEGE)
    assert caught.value.hint == "name another directory in XDPREPRO_CACHE"

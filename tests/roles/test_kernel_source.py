# SPDX-License-Identifier: GPL-2.0-or-later
"""Sources of kernels: out of git, tarballs and source packages; whole or absent, and the user's own trees untouched."""

import base64
import functools
import hashlib
import http.server
import io
import json
import re
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_cache import KernelFailure
from ansible_collections.xdprepro.lab.plugins.modules import deb_tree, debian_lists, git_tree, tarball_tree
from debian_mirror import ANY_PACKAGE, make_mirror, make_tree, source_package

from xdprepro import cmd


def git(repository: Path, *words: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "protocol.file.allow=always")
    return cmd.run(["git", "-C", repository, *identity, *words]).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits, the newer one with a tag and a change in one file."""
    path = tmp_path / "linux"
    make_tree(path)
    git(path, "init", "--quiet", "--initial-branch=main")
    git(path, "add", ".")
    git(path, "commit", "--quiet", "--message=one")
    (path / "drivers/net/veth.c").write_text("two\n")
    git(path, "commit", "--quiet", "--all", "--message=two")
    git(path, "tag", "v2")
    return path


def check_out(cache: Path, repository: Path | str, ref: str) -> dict[str, Any]:
    wanted = {"repository": str(repository), "ref": ref, "progress": ""}
    answer: dict[str, Any] = git_tree.work({"cache": str(cache), **wanted}, False)
    return answer


def veth(answer: dict[str, Any]) -> str:
    return Path(answer["tree"], "drivers/net/veth.c").read_text()


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_branches_tags_and_commits_are_checked_out(tmp_path: Path, repository: Path, form: str) -> None:
    source = form.format(repository)
    commits = git(repository, "log", "--format=%H").split()
    for ref, commit in {"main": 0, "v2": 0, "HEAD~1": 1, "v2^": 1, commits[1]: 1, commits[0][:12]: 0}.items():
        answer = check_out(tmp_path, source, ref)
        assert answer["commit"] == commits[commit]
        assert answer["spec"] == f"git:{source}@{commits[commit]}"
        assert answer["source_id"] == git(repository, "rev-parse", f"{commits[commit]}^{{tree}}")
        assert veth(answer) == ("two\n" if commit == 0 else "drivers/net/veth.c\n")


def test_the_same_commit_changes_nothing_and_another_one_only_its_files(tmp_path: Path, repository: Path) -> None:
    first = check_out(tmp_path, repository, "HEAD~1")
    files = [path for path in Path(first["tree"]).rglob("*") if path.is_file() and path.name != ".git"]
    before = {path: path.stat().st_mtime_ns for path in files}
    assert check_out(tmp_path, repository, "HEAD~1")["changed"] is False
    assert check_out(tmp_path, repository, "HEAD")["changed"] is True
    changed = [path.name for path, stamp in before.items() if path.stat().st_mtime_ns != stamp]
    assert changed == ["veth.c"]


def test_new_commits_are_fetched(tmp_path: Path, repository: Path) -> None:
    for source in (repository, f"file://{repository}"):
        check_out(tmp_path, source, "main")
        (repository / "Makefile").write_text(f"{source}\n")
        git(repository, "commit", "--quiet", "--all", "--message=three")
        answer = check_out(tmp_path, source, "main")
        assert Path(answer["tree"], "Makefile").read_text() == f"{source}\n"


def test_a_commit_that_no_branch_leads_to_is_found(tmp_path: Path, repository: Path) -> None:
    check_out(tmp_path, repository, "main")
    (repository / "Makefile").write_text("lost\n")
    git(repository, "commit", "--quiet", "--all", "--message=lost")
    lost = git(repository, "rev-parse", "HEAD")
    git(repository, "reset", "--quiet", "--hard", "v2")
    assert Path(check_out(tmp_path, repository, lost)["tree"], "Makefile").read_text() == "lost\n"


def test_a_tree_with_changes_is_left_alone_and_they_are_no_part_of_the_source(tmp_path: Path, repository: Path) -> None:
    (repository / "drivers/net/veth.c").write_text("not committed\n")
    (repository / "new.c").write_text("not added\n")
    git(repository, "status")  # which may renew the index
    before = {path: path.stat().st_mtime_ns for path in repository.rglob("*") if path.is_file()}
    answer = check_out(tmp_path, repository, "HEAD")
    assert veth(answer) == "two\n"
    assert not Path(answer["tree"], "new.c").exists()
    assert {path: path.stat().st_mtime_ns for path in repository.rglob("*") if path.is_file()} == before


def test_what_a_killed_git_left_is_taken_away(tmp_path: Path, repository: Path) -> None:
    answer = check_out(tmp_path, repository, "HEAD~1")
    name = Path(answer["tree"]).name
    mirror = tmp_path / f"sources/{name}.git"
    Path(answer["tree"], "stray.c").write_text("half\n")
    Path(answer["tree"], "Makefile").write_text("half\n")
    for lock in ("packed-refs.lock", f"worktrees/{name}/index.lock", f"worktrees/{name}/HEAD.lock"):
        (mirror / lock).touch()
    assert veth(check_out(tmp_path, repository, "HEAD")) == "two\n"
    assert Path(answer["tree"], "Makefile").read_text() == "Makefile\n"
    assert not Path(answer["tree"], "stray.c").exists()


@pytest.mark.parametrize("form", ["{}", "file://{}"])
@pytest.mark.parametrize("ref", ["v3", "HEAD~9", "0" * 40, "--all", "main:Makefile"])
def test_a_ref_that_is_not_there_is_named(tmp_path: Path, repository: Path, ref: str, form: str) -> None:
    with pytest.raises(KernelFailure) as caught:
        check_out(tmp_path, form.format(repository), ref)
    assert caught.value.reason == "no_such_ref"
    assert f"no commit {ref}" in str(caught.value)


def test_a_repository_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KernelFailure, match="no such directory") as caught:
        check_out(tmp_path, tmp_path / "none", "v1")
    assert caught.value.reason == "no_such_file"
    with pytest.raises(KernelFailure, match="git: fatal: "):
        check_out(tmp_path, f"file://{tmp_path}/none", "v1")
    assert not list(tmp_path.glob("sources/*.git"))


def test_a_repository_of_something_else_is_no_kernel(tmp_path: Path, repository: Path) -> None:
    git(repository, "rm", "-r", "--quiet", "arch")
    git(repository, "commit", "--quiet", "--message=no arch")
    with pytest.raises(KernelFailure, match="there is no arch in it") as caught:
        check_out(tmp_path, repository, "HEAD")
    assert caught.value.reason == "no_source"


# What logs in, and what looks like an option


LOGIN = ("robot", "secret/42")
SECRET = "secret%2F42"


class Guarded(http.server.SimpleHTTPRequestHandler):
    """Files for those who log in; how long they are is not said."""

    def send_head(self) -> Any:
        wanted = base64.b64encode(":".join(LOGIN).encode()).decode()
        if self.headers["Authorization"] == f"Basic {wanted}":
            return super().send_head()
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="test"')
        self.end_headers()
        return None

    def send_header(self, keyword: str, value: str) -> None:
        if keyword != "Content-Length":
            super().send_header(keyword, value)

    def log_message(self, *_: Any) -> None:
        """Nothing, as the output is the test's."""


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[str]:
    """The URL of a directory, up to its name, with what logs in."""
    handler = functools.partial(Guarded, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{LOGIN[0]}:{SECRET}@127.0.0.1:{server.server_port}"
        server.shutdown()


def check_forgotten(cache: Path, answer: dict[str, Any]) -> None:
    texts = [json.dumps(answer), *(path.read_text(errors="replace") for path in cache.rglob("*") if path.is_file())]
    assert [text for text in texts if SECRET in text or LOGIN[0] in text or LOGIN[1] in text] == []


def test_what_logs_in_to_a_repository_is_used_and_forgotten(tmp_path: Path, repository: Path, guarded: str) -> None:
    git(repository, "update-server-info")
    cache, source = tmp_path / "cache", f"{guarded}/linux/.git"
    cache.mkdir()
    wanted = {"cache": str(cache), "repository": source, "progress": str(cache / "progress")}
    answer = git_tree.work({**wanted, "ref": "main"}, False)
    check_forgotten(cache, answer)
    assert answer["spec"].startswith("git:http://127.0.0.1:")
    (repository / "Makefile").write_text("three\n")
    git(repository, "commit", "--quiet", "--all", "--message=three")
    git(repository, "update-server-info")
    answer = git_tree.work({**wanted, "ref": "main"}, False)
    assert Path(answer["tree"], "Makefile").read_text() == "three\n"
    check_forgotten(cache, answer)


def test_what_logs_in_to_a_tarball_is_used_and_forgotten(tmp_path: Path, tarball: Path, guarded: str) -> None:
    cache, progress = tmp_path / "cache", tmp_path / "cache/progress"
    cache.mkdir()
    wanted = {"cache": str(cache), "source": f"{guarded}/{tarball.name}", "sha256": sha256_of(tarball)}
    answer = tarball_tree.work({**wanted, "progress": str(progress)}, False)
    assert Path(answer["tree"], "Makefile").exists()
    check_forgotten(cache, answer)
    tarball_tree.download(wanted["source"], tmp_path / "again", str(progress))
    assert re.fullmatch(r"downloading http://127.0.0.1:\d+/linux-6.1.tar.xz: 0 MB", progress.read_text())


def test_a_repository_that_looks_like_an_option_is_none(tmp_path: Path) -> None:
    with pytest.raises(KernelFailure, match="git: fatal: strange hostname"):
        check_out(tmp_path, "--upload-pack=evil:x", "v1")


@pytest.mark.parametrize("name", ["-x.tar", "host:x.tar"])
def test_a_tarball_of_any_name_is_a_file(
    tmp_path: Path, tarball: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tarball.rename(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert Path(unpack(tmp_path / "cache", name)["tree"], "Makefile").exists()


# Tarballs


@pytest.fixture
def tarball(tmp_path: Path) -> Path:
    make_tree(tmp_path / "linux-6.1")
    path = tmp_path / "linux-6.1.tar.xz"
    with tarfile.open(path, "w:xz") as archive:
        archive.add(tmp_path / "linux-6.1", "linux-6.1")
    return path


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unpack(cache: Path, source: Path | str, sha256: str = "") -> dict[str, Any]:
    wanted = {"source": str(source), "sha256": sha256, "progress": ""}
    answer: dict[str, Any] = tarball_tree.work({"cache": str(cache), **wanted}, False)
    return answer


def trees(cache: Path) -> list[str]:
    return [path.name for path in cache.glob("sources/*") if path.suffix != ".lock"]


def test_a_tarball_is_unpacked_once(tmp_path: Path, tarball: Path) -> None:
    answer = unpack(tmp_path / "cache", tarball)
    assert Path(answer["tree"], "drivers/net/veth.c").read_text() == "drivers/net/veth.c\n"
    assert answer["source_id"] == sha256_of(tarball)
    assert answer["spec"] == f"tarball:{tarball},sha256={sha256_of(tarball)}"
    assert unpack(tmp_path / "cache", tarball, sha256_of(tarball))["changed"] is False
    copy = tarball.rename(tmp_path / "other.tar.xz")
    assert unpack(tmp_path / "cache", copy)["tree"] == answer["tree"]
    assert trees(tmp_path / "cache") == [Path(answer["tree"]).name]


def test_a_url_is_fetched_and_held_against_its_sum(tmp_path: Path, tarball: Path) -> None:
    url = f"file://{tarball}"
    assert Path(unpack(tmp_path / "cache", url, sha256_of(tarball))["tree"], "Makefile").exists()
    with pytest.raises(KernelFailure, match=f"sha256 is {sha256_of(tarball)}, not {'0' * 64}") as caught:
        unpack(tmp_path / "other", url, "0" * 64)
    assert caught.value.reason == "sha256_mismatch"
    assert trees(tmp_path / "other") == []
    with pytest.raises(KernelFailure) as caught:
        unpack(tmp_path / "other", f"{url}.none", "0" * 64)
    assert caught.value.reason == "download_failed"


def test_a_tarball_with_another_sum_is_refused(tmp_path: Path, tarball: Path) -> None:
    with pytest.raises(KernelFailure, match="sha256 is") as caught:
        unpack(tmp_path / "cache", tarball, "0" * 64)
    assert caught.value.reason == "sha256_mismatch"


def test_a_cut_tarball_leaves_nothing(tmp_path: Path, tarball: Path) -> None:
    tarball.write_bytes(tarball.read_bytes()[:-40])
    with pytest.raises(KernelFailure) as caught:
        unpack(tmp_path / "cache", tarball)
    assert caught.value.reason == "damaged"
    assert trees(tmp_path / "cache") == []


@pytest.mark.parametrize("kind", ["dots", "absolute", "through a link"])
def test_a_tarball_cannot_write_outside(tmp_path: Path, tarball: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    names = {
        "dots": "linux-6.1/../../../../outside/evil",
        "absolute": f"{outside}/evil",
        "through a link": "linux-6.1/x/evil",
    }
    hostile = tmp_path / "hostile.tar"
    with tarfile.open(hostile, "w") as archive:
        archive.add(tmp_path / "linux-6.1", "linux-6.1")
        link = tarfile.TarInfo("linux-6.1/x")
        link.type, link.linkname = tarfile.SYMTYPE, str(outside)
        archive.addfile(link)
        evil = tarfile.TarInfo(names[kind])
        evil.size = 5
        archive.addfile(evil, io.BytesIO(b"evil\n"))
    with pytest.raises(KernelFailure):
        unpack(tmp_path / "cache", hostile)
    assert list(outside.iterdir()) == []
    assert trees(tmp_path / "cache") == []


def test_what_is_no_kernel_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/Makefile").touch()
    path = tmp_path / "other.tar"
    with tarfile.open(path, "w") as archive:
        archive.add(tmp_path / "other", "other")
    with pytest.raises(KernelFailure, match="there is no Kconfig, arch, drivers/net in it") as caught:
        unpack(tmp_path / "cache", path)
    assert caught.value.reason == "no_source"
    assert trees(tmp_path / "cache") == []


def test_what_an_interrupted_unpacking_left_is_taken_away(tmp_path: Path, tarball: Path) -> None:
    answer = unpack(tmp_path / "cache", tarball)
    tree = Path(answer["tree"])
    left = tree.with_name(f".{tree.name}.new")
    tree.rename(left)
    (left / "unpacked").mkdir()
    (left / "unpacked/half").touch()
    again = Path(unpack(tmp_path / "cache", tarball)["tree"])
    assert (again / "Makefile").exists()
    assert not left.exists()


# Source packages


def test_a_source_package_is_unpacked(tmp_path: Path) -> None:
    mirror = make_mirror(tmp_path / "mirror", {"bookworm": [source_package("6.1.176-1", tmp_path)]})
    where = {"mirror": f"file:{mirror.directory}", "keyring": str(mirror.keyring), **ANY_PACKAGE, "progress": ""}
    lists = debian_lists.work({"directory": str(tmp_path / "cache/apt"), "refresh": False, **where}, False)
    wanted = {"package": "linux-source-6.1", "version": "", "suite": "", "progress": ""}
    options = {"cache": str(tmp_path / "cache"), "index": lists["index"], **wanted}
    answer = deb_tree.work(options, False)
    assert Path(answer["tree"], "drivers/net/veth.c").read_text() == "drivers/net/veth.c\n"
    assert answer["spec"] == "deb-src:linux-source-6.1=6.1.176-1"
    assert deb_tree.work(options, False)["changed"] is False
    with pytest.raises(KernelFailure, match="linux is no package with a source tarball") as caught:
        deb_tree.work({**options, "package": "linux"}, False)
    assert caught.value.reason == "no_source"
    with pytest.raises(KernelFailure, match="no package linux-source-6.2") as caught:
        deb_tree.work({**options, "package": "linux-source-6.2"}, False)
    assert caught.value.hint == "there are: linux-source-6.1"

# SPDX-License-Identifier: GPL-2.0-or-later
"""How kernels are spelled, and what is read of one that is on disk."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.xdprepro.lab.plugins.module_utils import kernel_cache
from ansible_collections.xdprepro.lab.plugins.modules import git_tree

from xdprepro.errors import FAILED, STORAGE, UNAVAILABLE, USAGE
from xdprepro.kernel import (
    FORMS,
    KEY,
    MANIFEST,
    MANIFEST_VERSION,
    MODULE_SUMS,
    KernelError,
    KernelSpec,
    cache_directory,
    hide_login,
    parse_kernel_spec,
    read_kernel,
    status_of,
)
from xdprepro.kernels import REMOTE

SUM = "0123456789abcdef" * 4

SPECS = {
    "git:/src/linux@v6.1": KernelSpec("", "git", "/src/linux", ref="v6.1"),
    "git:git@host:a/linux.git@HEAD~3": KernelSpec("", "git", "git@host:a/linux.git", ref="HEAD~3"),
    "git:https://host:8080/linux@v6.1": KernelSpec("", "git", "https://host:8080/linux", ref="v6.1"),
    "tarball:/a/linux-6.1.tar.xz": KernelSpec("", "tarball", "/a/linux-6.1.tar.xz"),
    "tarball:a,b.tar": KernelSpec("", "tarball", "a,b.tar"),
    f"tarball:https://h/x.tar,sha256={SUM}": KernelSpec("", "tarball", "https://h/x.tar", sha256=SUM),
    "deb:6.1": KernelSpec("", "deb", "6.1"),
    "deb:linux-image-7.3.4+deb13-amd64": KernelSpec("", "deb", "linux-image-7.3.4+deb13-amd64"),
    "deb:linux-image-6.1.0-50-amd64=6.1.176-1@bookworm": KernelSpec(
        "", "deb", "linux-image-6.1.0-50-amd64", version="6.1.176-1", suite="bookworm"
    ),
    "deb:6.16@trixie-backports": KernelSpec("", "deb", "6.16", suite="trixie-backports"),
    "deb:a=1:2~bpo13+1": KernelSpec("", "deb", "a", version="1:2~bpo13+1"),
    "deb-src:linux-source-6.1": KernelSpec("", "deb-src", "linux-source-6.1"),
    "image:/b/bzImage": KernelSpec("", "image", "/b/bzImage"),
    "image:/b,modules=/m,config=/c": KernelSpec("", "image", "/b", modules="/m", config="/c"),
    "image:/b,config=/c,modules=/m": KernelSpec("", "image", "/b", modules="/m", config="/c"),
    "running": KernelSpec("", "running", ""),
}

WRONG = {
    "": "no kernel is spelled like that",
    "6.1": "no kernel is spelled like that",
    "debian:6.1": "no kernel is spelled like that",
    "running:": "no kernel is spelled like that",
    "running:6.1": "no kernel is spelled like that",
    "git": "no kernel is spelled like that",
    "deb:": "not of the form deb:package",
    "deb:a b": "not of the form deb:package",
    "deb:--help": "not of the form deb:package",
    "git:/src/linux": "not of the form git:URL-or-path@ref",
    "git:/src/linux@": "not of the form git:URL-or-path@ref",
    "git:https://user:token@host/linux": "no ref",
    "git:https://user:token@host": "no ref",
    "git:git@host:a/linux.git": "no ref",
    "tarball:": "not of the form tarball:",
    "tarball:https://h/x.tar": "a tarball from a URL needs its sha256",
    "tarball:/x.tar,sha256=": "not of the form tarball:",
    "tarball:/x.tar,sha256=abc": "sha256 is 'abc'",
    f"tarball:/x.tar,sha256={SUM.upper()}": "sha256 is",
    "image:": "not of the form image:",
}


@pytest.mark.parametrize("text", SPECS)
def test_a_spec_is_taken_apart(text: str) -> None:
    spec = parse_kernel_spec(text)
    wanted = SPECS[text]
    assert spec == KernelSpec(text, *(getattr(wanted, name) for name in list(wanted.__dataclass_fields__)[1:]))
    assert spec.is_built == (spec.kind in ("git", "tarball", "deb-src"))


def test_every_kind_is_spelled_in_the_examples() -> None:
    assert {parse_kernel_spec(text).kind for text in SPECS} == set(FORMS)


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_spec_is_refused_with_the_form_it_should_have(text: str) -> None:
    with pytest.raises(KernelError) as caught:
        parse_kernel_spec(text)
    assert caught.value.message.startswith(f"kernel {text.replace('user:token@', '')!r}: {WRONG[text]}")
    assert caught.value.hint
    assert (caught.value.reason, caught.value.status) == ("bad_spec", USAGE)


@pytest.mark.parametrize("hide", [hide_login, kernel_cache.hide_login])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("git:https://user:tok@en@host/linux@v6.1", "git:https://host/linux@v6.1"),
        ("fatal: 'https://token@host/' and https://a:b@c/", "fatal: 'https://host/' and https://c/"),
        ("git:ssh://git:password@host:22/linux@v1", "git:ssh://git@host:22/linux@v1"),
        *((text, text) for text in SPECS),
    ],
)
def test_what_logs_in_is_hidden_and_nothing_else(text: str, shown: str, hide: Callable[[str], str]) -> None:
    assert hide(text) == shown


def test_keys_are_told_from_specs() -> None:
    for key in ("6.1.0-50-amd64-0123456789ab", "7.3.4+deb13-amd64-84c50f5d9317", "6.1.176-15cb2acd3cb1"):
        assert KEY.fullmatch(key)
    for text in ("running", "deb:6.1-0123456789ab", "../6.1-0123456789ab", "6.1-0123456789AB", "-0123456789ab"):
        assert not KEY.fullmatch(text)


@pytest.mark.parametrize(
    ("reason", "status"),
    [("no_such_ref", USAGE), ("no_mirror", UNAVAILABLE), ("no_space", STORAGE), ("build_failed", FAILED)],
)
def test_the_reason_decides_the_exit_status(reason: str, status: int) -> None:
    assert status_of(reason) == status


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"XDPREPRO_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDPREPRO_CACHE": "", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/xdprepro"),
        ({"XDPREPRO_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/xdprepro"),
        ({"XDPREPRO_CACHE": "~/d", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/d"),
    ],
)
def test_the_cache_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], path: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_directory() == Path(path)


FACTS: dict[str, Any] = {
    "manifest_version": 1,
    "key": "6.1-0123456789ab",
    "spec": "deb:linux-image-6.1=1",
    "kind": "deb",
    "release": "6.1",
    "image": "vmlinuz",
    "image_sha256": SUM,
    "modules": "modules",
    "config": None,
    "system_map": None,
    "build_id": None,
    "compiler": None,
    "source": {"packages": []},
    "log": None,
    "created_utc": "2026-01-01T00:00:00+00:00",
    "size_bytes": 7,
}


def test_a_kernel_is_read_with_paths_that_lead_to_its_files(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps(FACTS))
    kernel = read_kernel(tmp_path)
    assert (kernel.image, kernel.modules, kernel.config) == (tmp_path / "vmlinuz", tmp_path / "modules", None)
    assert (kernel.key, kernel.size_bytes, kernel.source) == ("6.1-0123456789ab", 7, {"packages": []})


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        "{}",
        json.dumps({**FACTS, "manifest_version": 2}),
        json.dumps(FACTS).replace("key", "k"),
    ],
)
def test_what_is_no_manifest_is_named(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(KernelError, match="not the manifest of a kernel") as caught:
        read_kernel(tmp_path)
    assert caught.value.reason == "damaged"
    assert str(tmp_path) in caught.value.message


def test_collection_and_package_mean_the_same() -> None:
    """Modules run without our package, so what both know stands in each."""
    assert (kernel_cache.MANIFEST, kernel_cache.MANIFEST_VERSION) == (MANIFEST, MANIFEST_VERSION)
    assert kernel_cache.MODULE_SUMS == MODULE_SUMS
    assert REMOTE["git"] == git_tree.REMOTE

# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels out of packages: found in lists that are verified, taken out whole or not at all; the host stays as it is."""

import os
import shutil
import struct
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.xdprepro.lab.plugins.module_utils import bzimage, debian_index, kernel_cache
from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_cache import KernelFailure
from ansible_collections.xdprepro.lab.plugins.modules import deb_kernel, debian_lists, image_kernel
from conftest import need
from debian_mirror import (
    ANY_PACKAGE,
    Mirror,
    Package,
    image_package,
    make_bzimage,
    make_config,
    make_mirror,
    make_module,
    split_packages,
)

from xdprepro import cmd
from xdprepro.kernel import read_kernel

SPLIT = "7.3.4+deb13-amd64"


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Mirror:
    directory = tmp_path_factory.mktemp("mirror")
    module = make_module(directory)
    return make_mirror(
        directory,
        {
            "bookworm": [
                image_package("6.1.0-9-amd64", "6.1.90-1", module),
                image_package("6.1.0-50-amd64", "6.1.176-1", module),
                image_package("6.1.0-60-rt-amd64", "6.1.190-1", module),
                image_package("6.1.0-60-cloud-amd64", "6.1.190-1", module),
                Package("linux-image-6.1.0-70-amd64-dbg", "6.1.200-1", {"usr/lib/debug/vmlinux": b"symbols"}),
            ],
            "trixie": [
                image_package("6.12.9+deb13-amd64", "6.12.9-1", module),
                *split_packages(SPLIT, "7.3.4-1", module),
            ],
            # What somebody else puts into a package is not to leave the directory.
            "sid": [
                image_package("6.1.0-50-amd64", "6.1.176-1~x", module),
                Package("linux-image-6.16.0-amd64", "6.16.0-1", {"usr/share/doc/empty": b""}),
            ],
        },
    )


@pytest.fixture(scope="module")
def lists(mirror: Mirror, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lists that were read once; the directory holds no kernels."""
    cache = tmp_path_factory.mktemp("lists")
    read_lists(cache, mirror)
    return cache


@pytest.fixture
def cache(lists: Path, tmp_path: Path) -> Path:
    """A cache of its own, with the lists in it."""
    shutil.copytree(lists / "apt", tmp_path / "cache/apt")
    return tmp_path / "cache"


def read_lists(cache: Path, mirror: Mirror, *, refresh: bool = False, check_mode: bool = False) -> dict[str, Any]:
    where = {"directory": str(cache / "apt"), "mirror": f"file:{mirror.directory}", "keyring": str(mirror.keyring)}
    options = {"refresh": refresh, **ANY_PACKAGE, "progress": ""}
    answer: dict[str, Any] = debian_lists.work({**where, **options}, check_mode)
    return answer


def fetch(cache: Path, package: str, *, version: str = "", suite: str = "", progress: str = "") -> Any:
    wanted = {"package": package, "version": version, "suite": suite, "progress": progress}
    where = {"cache": str(cache), "index": str(cache / "apt/index.json")}
    made = deb_kernel.work({**where, **wanted}, False)
    return read_kernel(cache / "kernels" / made["key"])


def left_over(cache: Path) -> list[str]:
    """Everything but whole kernels."""
    directory = cache / "kernels"
    return (
        [path.name for path in directory.iterdir() if not (path / "manifest.json").exists()]
        if directory.exists()
        else []
    )


def refusal(cache: Path, package: str, **options: str) -> KernelFailure:
    with pytest.raises(KernelFailure) as caught:
        fetch(cache, package, **options)
    assert left_over(cache) == []
    return caught.value


def test_a_kernel_is_taken_out_of_its_package(cache: Path) -> None:
    kernel = fetch(cache, "linux-image-6.1.0-9-amd64")
    assert (kernel.release, kernel.kind) == ("6.1.0-9-amd64", "deb")
    assert kernel.spec == "deb:linux-image-6.1.0-9-amd64=6.1.90-1"
    assert kernel.image.read_bytes() == make_bzimage("6.1.0-9-amd64")
    assert kernel.image_sha256 == kernel_cache.sha256_of(kernel.image)
    assert kernel.config.read_bytes() == make_config("6.1.0-9-amd64")
    assert kernel.compiler == "gcc-12 (test) 12.2.0"
    assert (kernel.modules / "modules.dep").read_text() == "kernel/net/x.ko:\n"
    assert (kernel.modules / "modules.builtin").exists()
    assert kernel.system_map is None  # Debian's says only where the real one is
    found = {path.name for path in (cache / "kernels" / kernel.key).iterdir()}
    assert found == {"vmlinuz", "config", "modules", "modules.sha256", "manifest.json"}
    sums = cmd.run([*("env", "--chdir", kernel.image.parent), "sha256sum", "--check", "modules.sha256"]).stdout
    assert set(sums.splitlines()) >= {"modules/kernel/net/x.ko: OK", "modules/modules.dep: OK"}
    assert left_over(cache) == []


def test_the_same_package_is_taken_once(cache: Path) -> None:
    first = fetch(cache, "6.1")
    made = (first.image.stat().st_ino, first.created_utc)
    again = fetch(cache, "linux-image-6.1.0-50-amd64")
    assert (again.image.stat().st_ino, again.created_utc) == made


@pytest.mark.parametrize(
    ("name", "suite", "spec"),
    [
        ("6.1", "", "deb:linux-image-6.1.0-50-amd64=6.1.176-1"),
        ("6.1.90", "", "deb:linux-image-6.1.0-9-amd64=6.1.90-1"),
        ("6", "bookworm", "deb:linux-image-6.1.0-50-amd64=6.1.176-1"),
        ("6.1", "sid", "deb:linux-image-6.1.0-50-amd64=6.1.176-1~x"),
        ("6.12", "", "deb:linux-image-6.12.9+deb13-amd64=6.12.9-1"),
        ("7", "", f"deb:linux-image-{SPLIT}=7.3.4-1"),
        ("linux-image-amd64", "", f"deb:linux-image-{SPLIT}=7.3.4-1"),
        ("linux-image-6.1.0-60-rt-amd64", "", "deb:linux-image-6.1.0-60-rt-amd64=6.1.190-1"),
    ],
)
def test_a_series_is_its_newest_plain_image(cache: Path, name: str, suite: str, spec: str) -> None:
    """Neither rt, nor cloud, nor debug symbols, nor 6.12 for 6.1."""
    assert fetch(cache, name, suite=suite).spec == spec


def test_a_kernel_that_is_split_over_packages_is_put_together(cache: Path) -> None:
    kernel = fetch(cache, f"linux-image-{SPLIT}")
    assert kernel.image.read_bytes() == make_bzimage(SPLIT)
    assert kernel.config.read_bytes() == make_config(SPLIT)
    assert (kernel.modules / "modules.dep").read_text() == "kernel/net/x.ko:\n"
    names = [package["package"] for package in kernel.source["packages"]]
    assert names == [f"linux-{what}-{SPLIT}" for what in ("image", "base", "binary", "modules")]


@pytest.mark.parametrize(
    ("wanted", "reason", "message", "hint"),
    [
        ({"package": "6.2"}, "no_such_package", "no image package of the series 6.2", "6.1, 6.12, 6.16, 7.3"),
        ({"package": "6.12", "suite": "sid"}, "no_such_package", "of the series 6.12 in sid", "there are: 6.1, 6.16"),
        ({"package": "linux-image-6.1.0-51-amd64"}, "no_such_package", "no package", "linux-image-6.1.0-50-amd64"),
        (
            {"package": "6.1", "version": "1"},
            "no_such_version",
            "6.1 has no version 1",
            "6.1.176-1, 6.1.176-1~x",
        ),
        ({"package": "6.1", "suite": "buster"}, "no_such_suite", "no suite buster", "there are: bookworm, trixie, sid"),
        ({"package": "6.1", "suite": "forky"}, "no_such_suite", "suite forky cannot be read", "bookworm"),
        ({"package": "linux-image-6.1.0-70-amd64-dbg"}, "no_kernel", "holds no kernel", "debug"),
        ({"package": "6.16"}, "no_kernel", "linux-image-6.16.0-amd64 holds no kernel", ""),
        ({"package": f"linux-binary-{SPLIT}"}, "no_kernel", "is no image package", "deb:6.1"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(
    cache: Path, wanted: dict[str, str], reason: str, message: str, hint: str
) -> None:
    failure = refusal(cache, wanted.pop("package"), **wanted)
    assert failure.reason == reason
    assert message in str(failure)
    assert hint in failure.hint


def test_versions_sort_as_dpkg_sorts_them() -> None:
    versions = [
        "1",
        "1.0",
        "1.0~rc1",
        "1.0-1",
        "1.0-1~bpo13+1",
        "1.0-1+b1",
        "1:0.1",
        "1.10",
        "1.9",
        "1.0a",
        "1.0+b",
        "01",
    ]
    for a, b in combinations(versions, 2):
        less = cmd.run(["dpkg", "--compare-versions", a, "lt", b], check=False).status == 0
        assert (debian_index.version_key(a) < debian_index.version_key(b)) == less, (a, b)


def test_suites_that_are_not_there_are_named(lists: Path, mirror: Mirror) -> None:
    answer = read_lists(lists, mirror)
    assert answer["suites"] == ["bookworm", "trixie", "sid"]
    assert "bullseye-security" in answer["skipped"]
    assert all("apt-get" in reason for reason in answer["skipped"].values())


def test_lists_are_read_once_and_again_only_when_asked(lists: Path, mirror: Mirror) -> None:
    index = lists / "apt/index.json"
    before = index.stat().st_ino
    assert read_lists(lists, mirror)["changed"] is False
    assert index.stat().st_ino == before
    assert debian_lists.work(
        {"directory": str(lists / "apt"), "refresh": True, **ANY_PACKAGE, "mirror": "", "keyring": "", "progress": ""},
        True,
    )["changed"]
    assert index.stat().st_ino == before


@pytest.mark.parametrize(
    ("wanted", "renewed"),
    [
        ({"package": "6.1"}, False),
        ({"package": "6.1", "suite": "bookworm"}, False),
        ({"package": "6.1", "version": "6.1.999-1"}, True),
        ({"package": "linux-image-9.9-amd64"}, True),
        ({"package": "6.1", "suite": "bullseye"}, True),
        ({"package": "linux-source-9.9", "holds": "source"}, True),
        ({"package": "linux", "holds": "source"}, False),
    ],
)
def test_lists_are_renewed_where_what_is_wanted_may_have_come_since(
    lists: Path, wanted: dict[str, str], renewed: bool
) -> None:
    where = {"directory": str(lists / "apt"), "refresh": False, "mirror": "", "keyring": "", "progress": ""}
    assert debian_lists.work({**where, **ANY_PACKAGE, **wanted}, True)["changed"] is renewed


def test_nothing_is_used_that_another_key_signed(mirror: Mirror, tmp_path: Path) -> None:
    other = make_mirror(tmp_path / "other", {})
    with pytest.raises(KernelFailure) as caught:
        read_lists(tmp_path, Mirror(mirror.directory, other.keyring))
    assert caught.value.reason == "no_mirror"
    assert "signature" in str(caught.value) or "not signed" in str(caught.value)
    assert not (tmp_path / "apt/index.json").exists()


def test_without_a_keyring_nothing_is_read(mirror: Mirror, tmp_path: Path) -> None:
    with pytest.raises(KernelFailure) as caught:
        read_lists(tmp_path, Mirror(mirror.directory, tmp_path / "none.gpg"))
    assert caught.value.reason == "no_keyring"


def test_the_host_stays_as_it_is(mirror: Mirror, tmp_path: Path) -> None:
    def stamps() -> dict[str, int]:
        tops = (
            Path("/var/lib/apt/lists"),
            Path("/var/lib/dpkg"),
            Path("/etc/apt"),
            Path("/var/cache/apt"),
            Path("/boot"),
        )
        return {str(path): path.lstat().st_mtime_ns for top in tops for path in [top, *top.rglob("*")] if path.exists()}

    before = stamps()
    read_lists(tmp_path, mirror)
    fetch(tmp_path, "6.12")
    assert stamps() == before


@pytest.fixture
def spoilt(cache: Path, mirror: Mirror) -> Iterator[Path]:
    """A package of the mirror whose content is not what the list says, as if something had changed it on the way."""
    deb = mirror.directory / "pool/linux-image-6.12.9+deb13-amd64_6.12.9-1_amd64.deb"
    good = deb.read_bytes()
    deb.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    yield deb
    deb.write_bytes(good)


def test_a_package_that_was_changed_is_refused(cache: Path, spoilt: Path) -> None:
    failure = refusal(cache, "6.12")
    assert failure.reason == "sha256_mismatch"
    assert "linux-image-6.12.9+deb13-amd64" in str(failure)


def test_a_package_that_is_gone_is_named(cache: Path, spoilt: Path) -> None:
    spoilt.rename(spoilt.with_suffix(".away"))
    failure = refusal(cache, "6.12")
    spoilt.with_suffix(".away").rename(spoilt)
    assert failure.reason == "download_failed"
    assert "--refresh" in failure.hint


@pytest.fixture
def small_cache(cache: Path, root_user: None, tmp_path: Path) -> Iterator[Path]:
    """A file system with room for the lists and little more."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = cmd.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], check=False)
    need(mounted.status == 0, f"cannot mount a tmpfs: {mounted.stderr.strip()}")
    try:
        (small / "apt").mkdir()
        for name in ("apt.conf", "index.json"):
            shutil.copy(cache / "apt" / name, small / "apt" / name)
        yield small
    finally:
        cmd.run(["umount", small])


def test_a_full_disk_leaves_nothing(small_cache: Path) -> None:
    filler = small_cache / "filler"
    with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    os.truncate(filler, max(0, filler.stat().st_size - 24576))
    with pytest.raises(OSError, match="No space left") as caught:
        fetch(small_cache, "6.1")
    assert caught.value.errno == 28
    assert left_over(small_cache) == []
    filler.unlink()


def test_progress_is_told_in_a_file(cache: Path, tmp_path: Path) -> None:
    fetch(cache, "6.1", progress=str(tmp_path / "progress"))
    assert (tmp_path / "progress").read_text() == "unpacking linux-image-6.1.0-50-amd64"


# Kernels that are there already


def copy_image(cache: Path, **files: Path | None) -> Any:
    wanted = {name: str(path) if path else None for name, path in files.items()}
    everything = {"image": None, "modules": None, "config": None, "progress": "", "cache": str(cache), **wanted}
    made = image_kernel.work(everything, False)
    return read_kernel(cache / "kernels" / made["key"])


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "bzImage"
    path.write_bytes(make_bzimage("6.9.0-mine"))
    return path


def test_an_image_is_copied_and_stays_what_it_was(tmp_path: Path, image: Path) -> None:
    modules = tmp_path / "lib/modules/6.9.0-mine"
    (modules / "kernel").mkdir(parents=True)
    (modules / "modules.dep").write_text("kernel/x.ko:\n")
    (modules / "kernel/x.ko").write_bytes(b"module")
    (modules / "build").symlink_to("/")
    kernel = copy_image(tmp_path / "cache", image=image, modules=modules)
    assert (kernel.release, kernel.kind, kernel.config) == ("6.9.0-mine", "image", None)
    assert kernel.spec == f"image:{image},modules={modules}"
    assert not (kernel.modules / "build").is_symlink()
    assert (kernel.modules / "kernel/x.ko").read_bytes() == b"module"
    (modules / "kernel/x.ko").write_bytes(b"changed")
    assert copy_image(tmp_path / "cache", image=image, modules=modules).key != kernel.key
    assert (kernel.modules / "kernel/x.ko").read_bytes() == b"module"


def test_what_is_no_image_is_refused(tmp_path: Path, image: Path) -> None:
    image.write_bytes(b"\x7fELF" + bytes(8192))
    with pytest.raises(KernelFailure, match="no bzImage for x86"):
        copy_image(tmp_path / "cache", image=image)
    assert left_over(tmp_path / "cache") == []


def test_an_image_that_is_cut_off_is_refused(tmp_path: Path, image: Path) -> None:
    image.write_bytes(make_bzimage("6.9.0-mine", paragraphs=96))
    assert copy_image(tmp_path / "cache", image=image).kind == "image"
    image.write_bytes(image.read_bytes()[:-1])
    with pytest.raises(KernelFailure, match=r"cut off: 1 of its bytes are missing$") as caught:
        copy_image(tmp_path / "new", image=image)
    assert caught.value.reason == "damaged"
    assert left_over(tmp_path / "new") == []


@pytest.mark.parametrize("missing", ["image", "modules", "config"])
def test_files_that_are_not_there_are_named(tmp_path: Path, image: Path, missing: str) -> None:
    files: dict[str, Path | None] = {"image": image, missing: tmp_path / "none"}
    with pytest.raises(KernelFailure, match=f"{tmp_path}/none: no such") as caught:
        copy_image(tmp_path / "cache", **files)
    assert caught.value.reason == "no_such_file"


def test_modules_are_looked_for_where_they_were_installed(tmp_path: Path, image: Path) -> None:
    (tmp_path / "lib/modules/6.9").mkdir(parents=True)
    (tmp_path / "lib/modules/6.9/modules.dep").touch()
    with pytest.raises(KernelFailure, match="no modules.dep") as caught:
        copy_image(tmp_path / "cache", image=image, modules=tmp_path)
    assert caught.value.hint == f"name {tmp_path}/lib/modules/6.9"


def test_the_running_kernel_is_copied_or_what_is_missing_is_named(tmp_path: Path) -> None:
    release = os.uname().release
    if any(path.is_file() for path in (Path(f"/boot/vmlinuz-{release}"), Path("/lib/modules", release, "vmlinuz"))):
        kernel = copy_image(tmp_path / "cache")
        assert (kernel.release, kernel.kind, kernel.spec) == (release, "running", "running")
        return
    with pytest.raises(KernelFailure, match=f"no image of the running kernel: neither /boot/vmlinuz-{release}") as why:
        copy_image(tmp_path / "cache")
    assert "image:" in why.value.hint


@pytest.mark.parametrize("tool", ["gzip", "xz", "lzma", "zstd"])
def test_the_build_id_is_read_out_of_what_is_packed(tmp_path: Path, tool: str) -> None:
    """A kernel in miniature: an ELF file by the real linker, packed by the real tool behind a real header."""
    need(shutil.which(tool) is not None, f"no {tool}: run 'make setup'")
    source, vmlinux = tmp_path / "x.c", tmp_path / "vmlinux"
    source.write_text("void _start(void) {}\n")
    build_id = "00112233445566778899aabbccddeeff00112233"
    cmd.run(["gcc", "-nostdlib", "-static", f"-Wl,--build-id=0x{build_id}", source, "-o", vmlinux])
    cmd.run([tool, "--keep", vmlinux])
    packed = next(tmp_path.glob("vmlinux.*")).read_bytes() + vmlinux.stat().st_size.to_bytes(4, "little")
    image = bytearray(make_bzimage("6.9.0"))
    image[0x1F1] = 7  # sectors of set-up behind the first
    struct.pack_into("<H", image, 0x206, 0x20F)
    struct.pack_into("<II", image, 0x248, 0, len(packed))
    (tmp_path / "bzImage").write_bytes(bytes(image) + packed)
    assert bzimage.read_build_id(tmp_path / "bzImage") == bzimage.read_build_id(vmlinux) == build_id
    assert bzimage.read_release(tmp_path / "bzImage") == "6.9.0"

# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest is given: modules in order and unpacked, and the archive of them, the agent and the job."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.xdprepro.lab.plugins.module_utils import kernel_cache
from conftest import need
from guest_lab import make_job

from guest.tiny_kernel import kernel_of
from xdprepro import cmd
from xdprepro.errors import UNAVAILABLE, XdpreproError
from xdprepro.guest.initramfs import FILE, PROGRAM, format_cpio, make_initramfs
from xdprepro.guest.modules import check_modules, find_modules, module_name
from xdprepro.guest.unpack import ELF, read_module, read_vmlinux
from xdprepro.kernel import Kernel, KernelError

DEP = """\
kernel/a/top-one.ko.xz: kernel/a/middle.ko kernel/a/base.ko
kernel/a/middle.ko: kernel/a/base.ko
kernel/a/base.ko:
kernel/a/helper.ko:
kernel/a/other.ko:
"""
PACKERS = {"xz": ["xz", "--check=crc32"], "gz": ["gzip"], "zst": ["zstd", "--quiet"]}


def make_modules(path: Path, release: str = "6.1.0-1-amd64") -> Kernel:
    """A kernel with a directory of modules, made by hand."""
    path.mkdir()
    (path / "modules.dep").write_text(DEP)
    (path / "modules.builtin").write_text("kernel/b/inside.ko\n")
    (path / "modules.softdep").write_text(
        "softdep other pre: helper platform:alias post: base\nsoftdep middle post: x\n"
    )
    return kernel_of(path / "no-image", release, modules=path)


def names(kernel: Kernel, *wanted: str) -> list[str]:
    return [module_name(str(path)) for path in find_modules(kernel, wanted)]


def test_modules_come_after_what_they_depend_on(tmp_path: Path) -> None:
    assert names(make_modules(tmp_path / "m"), "top_one") == ["base", "middle", "top_one"]


def test_module_that_two_want_comes_once(tmp_path: Path) -> None:
    assert names(make_modules(tmp_path / "m"), "middle", "top-one", "inside") == ["base", "middle", "top_one"]


def test_soft_dependency_comes_before(tmp_path: Path) -> None:
    assert names(make_modules(tmp_path / "m"), "other") == ["helper", "other"]


def test_kernel_without_the_driver_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(XdpreproError) as raised:
        find_modules(make_modules(tmp_path / "m"), ["igb"])
    assert raised.value.message == "kernel 6.1.0-1-amd64 has no driver igb, neither built in nor as a module"
    assert raised.value.hint == "build the kernel with CONFIG_IGB"
    assert raised.value.status == UNAVAILABLE


def test_module_that_is_only_welcome_may_be_missing(tmp_path: Path) -> None:
    found = find_modules(make_modules(tmp_path / "m"), ["base"], welcome=["igb", "inside", "other"])
    assert [module_name(str(path)) for path in found] == ["base", "helper", "other"]


def test_cloud_flavour_is_named_as_the_reason(tmp_path: Path) -> None:
    with pytest.raises(XdpreproError) as raised:
        find_modules(make_modules(tmp_path / "m", "6.1.0-1-cloud-amd64"), ["igb"])
    assert "take the package without -cloud" in raised.value.hint


def test_modules_directory_that_is_damaged_is_told(tmp_path: Path) -> None:
    kernel = make_modules(tmp_path / "m")
    (tmp_path / "m/modules.dep").unlink()
    with pytest.raises(XdpreproError, match=r"modules.dep: No such file or directory"):
        find_modules(kernel, ["base"])


def test_kernel_without_modules_loads_none(tmp_path: Path) -> None:
    assert find_modules(kernel_of(tmp_path / "no-image"), ["igb"]) == ()


def test_real_drivers_come_after_their_dependencies(kernel: Kernel) -> None:
    assert kernel.modules is not None
    found = find_modules(kernel, ["virtio_pci", "igb"])
    order = [str(path.relative_to(kernel.modules)) for path in found]
    assert {module_name(name) for name in order} >= {"virtio_pci", "igb", "dca", "i2c_algo_bit"}
    for line in (kernel.modules / "modules.dep").read_text().splitlines():
        module, _, needs = line.partition(":")
        if module in order:
            assert all(order.index(need) < order.index(module) for need in needs.split())


SPOILED = {
    "a module": "modules/kernel/a/base.ko",
    "what decides which are loaded": "modules/modules.softdep",
    "the list of sums": "modules.sha256",
}


@pytest.mark.parametrize("what", SPOILED)
def test_what_was_changed_in_the_cache_is_not_loaded(tmp_path: Path, what: str) -> None:
    kernel = make_modules(tmp_path / "modules")
    base = tmp_path / "modules/kernel/a/base.ko"
    base.parent.mkdir(parents=True)
    base.write_bytes(b"base")
    kernel = replace(kernel, modules_sha256=kernel_cache.write_module_sums(tmp_path))
    check_modules(kernel, [base])
    with (tmp_path / SPOILED[what]).open("a") as file:
        file.write("\n")
    with pytest.raises(KernelError, match="is not what was put into the cache: its SHA-256 differs") as raised:
        check_modules(kernel, [base])
    assert raised.value.reason == "damaged"


def test_a_module_that_came_into_the_cache_later_is_not_loaded(tmp_path: Path) -> None:
    kernel = make_modules(tmp_path / "modules")
    kernel = replace(kernel, modules_sha256=kernel_cache.write_module_sums(tmp_path))
    late = tmp_path / "modules/late.ko"
    late.touch()
    with pytest.raises(KernelError, match=r"late.ko is not what was put"):
        check_modules(kernel, [late])


@pytest.mark.parametrize("suffix", PACKERS)
def test_packed_module_is_unpacked(tmp_path: Path, suffix: str) -> None:
    need(shutil.which(PACKERS[suffix][0]) is not None, f"no {PACKERS[suffix][0]}: run 'make setup'")
    plain = ELF + bytes(range(256)) * 100
    (tmp_path / "m.ko").write_bytes(plain)
    cmd.run([*PACKERS[suffix], tmp_path / "m.ko"])
    packed = tmp_path / f"m.ko.{suffix}"
    assert packed.stat().st_size < len(plain)
    assert read_module(packed) == plain
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(XdpreproError, match="cannot be unpacked"):
        read_module(packed)


def test_file_that_is_no_module_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.ko").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(XdpreproError, match=r"m.ko: not a kernel module"):
        read_module(tmp_path / "m.ko")


def test_real_kernel_is_unpacked(kernel: Kernel) -> None:
    vmlinux = read_vmlinux(kernel.image)
    assert vmlinux is not None
    assert vmlinux.startswith(ELF)
    assert f"Linux version {kernel.release} ".encode() in vmlinux


def test_kernel_that_cannot_be_unpacked_is_left_as_it_is(kernel: Kernel, tmp_path: Path) -> None:
    image = bytearray(kernel.image.read_bytes())
    (tmp_path / "short").write_bytes(image[:1000])
    image[len(image) // 2] ^= 0xFF
    (tmp_path / "damaged").write_bytes(image)
    assert read_vmlinux(tmp_path / "short") is None
    assert read_vmlinux(tmp_path / "damaged") is None


def test_archive_holds_what_it_was_given(tmp_path: Path) -> None:
    """As cpio(1) reads it."""
    need(shutil.which("cpio") is not None, "no cpio: run 'make setup'")
    modules = [tmp_path / "first-one.ko", tmp_path / "second.ko"]
    for path in modules:
        path.write_bytes(ELF + path.name.encode())
    agent = tmp_path / "agent"
    agent.write_bytes(b"the agent")
    (tmp_path / "archive").write_bytes(make_initramfs(agent, make_job("veth"), modules))
    out = tmp_path / "out"
    out.mkdir()
    said = cmd.run(["cpio", "--extract", "--quiet", "--directory", out, "--file", tmp_path / "archive"])
    assert said.stderr == ""
    assert (out / "init").read_bytes() == b"the agent"
    assert (out / "init").stat().st_mode & 0o111 == 0o111
    assert json.loads((out / "job.json").read_text()) == {
        **make_job("veth"),
        "modules": ["00-first_one.ko", "01-second.ko"],
    }
    assert (out / "modules/01-second.ko").read_bytes() == ELF + b"second.ko"
    assert sorted(path.name for path in out.rglob("*")) == [
        "00-first_one.ko",
        "01-second.ko",
        "init",
        "job.json",
        "modules",
    ]


def test_archive_is_the_same_from_the_same_parts(tmp_path: Path) -> None:
    archives = []
    for number in range(2):
        agent = tmp_path / f"agent{number}"  # of another name, inode and time
        agent.write_bytes(b"the agent")
        job = make_job("veth")
        archives.append(make_initramfs(agent, dict(reversed(job.items())) if number else job, []))
    assert archives[0] == archives[1]


def test_names_and_data_are_padded_to_words() -> None:
    for length in range(5):
        archive = format_cpio([("x" * (length + 1), FILE, b"y" * length), ("z", PROGRAM, b"")])
        assert len(archive) % 4 == 0
        assert all(archive.index(name) % 4 == 2 for name in (b"x\0", b"z\0") if length == 0)
